"use strict";
// The dashboard without this file works too; it keeps an open page up to date and remembers the colour scheme.
(() => {
  const root = document.documentElement;
  root.dataset.script = "";
  const store = {
    get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("theme", value); } catch { /* private mode */ } },
  };
  const chosen = store.get();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  function themeButton() {
    const button = document.getElementById("theme");
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      store.set(root.dataset.theme);
      name();
    });
  }

  // What scrolls can be reached with the keyboard; the end of a log is what one wants to see.
  function scrollers() {
    for (const part of document.querySelectorAll(".verbatim"))
      if (part.scrollHeight > part.clientHeight + 1) part.tabIndex = 0;
  }
  function tails() {
    for (const part of document.querySelectorAll("[data-tail]")) part.scrollTop = part.scrollHeight;
  }

  // Replaces the parts of the page that are marked as live by those of the same page as it is now.
  async function renew() {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (!now || now.innerHTML === old.innerHTML) continue;
      const open = [...old.querySelectorAll("details[open][id]")].map((part) => part.id);
      const picked = [...old.querySelectorAll("input:checked")].map((part) => part.value);
      const focus = old.contains(document.activeElement) ? document.activeElement.id || document.activeElement.getAttribute("href") : null;
      const at = [...old.querySelectorAll(".scroll")].map((part) => [part.scrollLeft, part.scrollTop]);
      old.replaceChildren(...now.childNodes);
      for (const id of open) { const part = document.getElementById(id); if (part) part.open = true; }
      for (const part of old.querySelectorAll("input[type=checkbox]")) part.checked = picked.includes(part.value);
      [...old.querySelectorAll(".scroll")].forEach((part, index) => { if (at[index]) [part.scrollLeft, part.scrollTop] = at[index]; });
      scrollers();
      tails();
      if (focus) [...old.querySelectorAll("a, button, input, select")].find((part) => part.id === focus || part.getAttribute("href") === focus)?.focus({ preventScroll: true });
    }
  }

  function follow() {
    const address = document.body.dataset.stream;
    if (!address || !window.EventSource) return;
    const status = document.getElementById("connection");
    let version = document.body.dataset.version || null;
    let busy = false, again = false, source = null;

    async function refresh() {
      if (busy) { again = true; return; }
      busy = true;
      try { do { again = false; await renew(); } while (again); } catch { /* the stream says when the server is back */ }
      busy = false;
    }

    function open() {
      source = new EventSource(address);
      source.onopen = () => { if (status) status.hidden = true; };
      source.onerror = () => { if (status) status.hidden = false; };
      source.onmessage = (message) => {
        const told = JSON.parse(message.data);
        if (told.goto && told.goto !== location.pathname) { location.replace(told.goto); return; }
        const pulse = document.getElementById("pulse");
        if (pulse && told.html !== undefined) pulse.innerHTML = told.html;
        if (told.version !== version) {
          const first = version === null;
          version = told.version;
          if (!first) refresh();
        }
      };
    }
    // A tab that nobody looks at costs nothing.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && source) { source.close(); source = null; }
      else if (!document.hidden && !source) { open(); refresh(); }
    });
    window.addEventListener("pagehide", () => source?.close());
    if (!document.hidden) open();
  }

  function forms() {
    for (const select of document.querySelectorAll("select[data-submit]"))
      select.addEventListener("change", () => select.form.requestSubmit());
    for (const form of document.querySelectorAll("form[method=post]"))
      form.addEventListener("submit", (event) => {
        if (form.getAttribute("aria-busy") === "true") event.preventDefault();
        form.setAttribute("aria-busy", "true");
      });
    window.addEventListener("pageshow", () => {
      for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    themeButton();
    forms();
    scrollers();
    tails();
    document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
    document.addEventListener("toggle", scrollers, true);
    follow();
  });
})();
