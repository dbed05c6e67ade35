"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();

  const follow = () => {
    const place = location.hash && document.getElementById(location.hash.slice(1));
    if (place instanceof HTMLDetailsElement) { place.open = true; place.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();

  // Paper has no scheme, and nothing on it can be opened.
  let kept, opened = [];
  addEventListener("beforeprint", () => {
    kept = root.dataset.theme;
    root.dataset.theme = "light";
    opened = [...document.querySelectorAll("details[data-print]:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => {
    if (kept) root.dataset.theme = kept; else delete root.dataset.theme;
    opened.forEach((each) => { each.open = false; });
  });

  for (const box of document.querySelectorAll("input[data-filter]")) {
    const items = [...document.querySelectorAll(`#${box.dataset.filter} .items > li`)];
    const groups = [...document.querySelectorAll(`#${box.dataset.filter} details.card`)];
    const told = document.getElementById(box.dataset.told);
    box.closest(".tools").hidden = false;
    let words;
    box.addEventListener("input", () => {
      words = words || items.map((each) => each.textContent.toLowerCase());
      const wanted = box.value.trim().toLowerCase();
      let count = 0;
      items.forEach((each, index) => {
        each.hidden = wanted !== "" && !words[index].includes(wanted);
        count += each.hidden ? 0 : 1;
      });
      if (wanted) groups.forEach((each) => { each.open = true; });
      told.textContent = wanted ? `${count} of ${items.length} items` : "";
    });
  }
})();
