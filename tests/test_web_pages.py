"""The pages: over real, foreign, hostile, large and torn run folders."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from contextlib import closing
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes.dashboard import EVIL, EVIL_ID, dashboard, hostile_run, run_command, run_ids, user_environment, write
from fakes.openai_server import FakeOpenAI
from fakes.pages import safe
from fakes.published import published_evaluation, published_run
from fakes.rule_world import RULE, world, write_split

from skillopt.report import answers
from skillopt.report.run import read_run
from skillopt.run.calls import stored_calls

TABS = ("", "/steps", "/skill", "/skill?from=seed&to=best", "/blame", "/items", "/calls", "/events", "/log", "/config")
LIMIT = 1_000_000


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    split = write_split(folder / "split")
    with FakeOpenAI(world()) as server:
        words = ["train", "--config", "configs/searchqa/default.yaml", "--split_dir", str(split), "--num_epochs", "2"]
        words += ["--optimizer_model", "teacher", "--target_model", "pupil", "--batch_size", "4"]
        run_command(
            [*words, "--out_root", str(folder / "runs" / "mine")], user_environment(OPENAI_BASE_URL=server.url), folder
        )
    return folder / "runs"


def test_the_pages_of_a_real_run(trained: Path) -> None:
    client = dashboard(trained)
    (run,) = run_ids(client)
    pages = {tab: client.get(f"/run/{run}{tab}") for tab in TABS}
    assert {page.status_code for page in pages.values()} == {200}
    assert all(page.headers["content-type"].startswith("text/html") for page in pages.values())
    overview = pages[""].text
    assert "33.3%" in overview
    assert "100.0%" in overview
    assert overview.count("<svg") >= 4
    assert "Test items, held out" in overview
    assert RULE in pages["/skill"].text
    assert 'class="row added"' in pages["/skill?from=seed&to=best"].text
    assert "step 1, edit 1" in pages["/blame"].text
    assert "accept new best" in pages["/steps"].text
    assert "step done" in pages["/events"].text
    assert "teacher" in pages["/config"].text


def test_a_step_and_an_item_of_a_real_run(trained: Path) -> None:
    client = dashboard(trained)
    (run,) = run_ids(client)
    step = client.get(f"/run/{run}/steps/1").text
    assert "Ranked edits" in step
    assert "they are all lower case" in step
    items = client.get(f"/run/{run}/items?pass=steps/step_0001/rollout&only=failed").text
    found = re.findall(r'href="(/run/[^"]+/item\?[^"]+)"', items)
    assert found
    item = client.get(found[0].replace("&amp;", "&")).text
    assert "no idea" in item
    assert "Reflection" in item
    assert "they are all lower case" in item
    assert client.get(f"/run/{run}/steps/99").status_code == 404
    assert client.get(f"/run/{run}/item?pass=steps/step_0001/rollout&id=nope").status_code == 404
    assert client.get(f"/run/{run}/items?pass=../../x").status_code == 404


def test_each_item_of_every_pass_has_its_conversation(trained: Path) -> None:
    view = read_run(trained / "mine")
    client = dashboard(trained)
    (run,) = run_ids(client)
    for name in view.passes:
        for row in view.results(name, 0, None).rows:
            page = client.get(f"/run/{run}/item", params={"pass": name, "id": row["id"]}).text
            said = [unescape(text) for text in re.findall(r'<h3>\w+</h3><pre class="verbatim">(.*?)</pre>', page, re.S)]
            assert any(row["question"] in text for text in said), (name, row["id"])
            assert row["response"] in said, (name, row["id"])
            (calls,) = re.findall(r'href="([^"]+)">All calls about this item', page)
            titles = re.findall(r"<summary><b>(.*?)</b>", client.get(unescape(calls)).text)
            assert titles
            assert set(titles) == {f"rollout: {row['id']}"}


def test_every_stored_call_is_on_a_page(trained: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs" / "mine"
    shutil.copytree(trained / "mine", root)
    with closing(sqlite3.connect(root / "journal.sqlite")) as db, db:  # as a run leaves them that stops within a step
        db.execute("UPDATE replies SET owner = NULL WHERE owner IN ('test', 'step_0002')")
    wanted = sorted(call["reply"] for call in stored_calls(root))
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    found, path = list[str](), f"/run/{run}/calls"
    while path:
        page = client.get(path).text
        assert f"of {len(wanted)}</span>" in page
        found += re.findall(r'<h3>reply</h3><pre class="verbatim">(.*?)</pre>', page, re.DOTALL)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        path = unescape(following[1]) if following else ""
    assert sorted(map(unescape, found)) == wanted


def test_runs_are_compared(trained: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    shutil.copytree(trained / "mine", root / "first")
    shutil.copytree(trained / "mine", root / "second")
    client = dashboard(root)
    runs = run_ids(client)
    page = client.get("/compare", params={"run": runs}).text
    assert "first: best" in page
    assert "second: best" in page
    assert "no difference" in page
    alone = client.get("/compare", params={"run": runs[0], "kind": "fixed"}).text
    assert "seed (baseline)" in alone
    assert "Fixed 4" in alone
    assert "no idea" in alone
    gone = client.get("/compare", params={"run": [runs[0], "gone-0123456789"]})
    assert "left out" in gone.text


def test_a_folder_of_the_published_implementation(tmp_path: Path) -> None:
    published_run(tmp_path / "runs" / "theirs")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    for tab in (*TABS, "/steps/1", "/steps/2", "/steps/3"):
        assert client.get(f"/run/{run}{tab}").status_code == 200, tab
    assert "75.0%" in client.get(f"/run/{run}").text
    steps = client.get(f"/run/{run}/steps").text
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>.*?</tr>", steps, re.DOTALL)]
    told = [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in rows[1:]]
    assert told[0] == [
        *("Step 3", "2", "accept new best", "33.3%", "75.0%", "75.0%", "1", "1", "990", "unknown", "6.5 s"),
    ]
    assert "Resume" not in client.get(f"/run/{run}").text
    assert "calls 1–20" not in client.get(f"/run/{run}/calls").text, "it has no journal that could hold one"


def test_a_hostile_folder_is_shown_and_nothing_of_it_runs(tmp_path: Path) -> None:
    hostile_run(tmp_path / "runs" / "evil", tmp_path / "elsewhere" / "secret.txt")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    rollout = "pass=" + quote("steps/step_0001/rollout")
    items = [f"/item?{rollout}&id={quote(id_)}" for id_ in (EVIL_ID, "../../secret")]
    paths = [
        *TABS,
        "/steps/1",
        "/steps/2",
        "/events?items=1",
        f"/items?{rollout}",
        *items,
        "/skill?to=1",
        "/skill?to=2",
    ]
    more = [f"/run/{run}{path}" for path in paths]
    texts = []
    for path in [
        "/",
        *more,
        f"/compare?run={run}",
        "/evaluate",
        f"/?q={quote(EVIL)}",
        f"/run/{run}/skill?to={quote(EVIL)}",
    ]:
        answer = client.get(path)
        assert answer.status_code == 200, path
        texts.append(answer.text)
    whole = "".join(texts)
    assert EVIL not in whole
    assert "<script>" not in whole
    assert "<img src=x" not in whole
    assert "OUTSIDE-OF-THE-ROOTS" not in whole
    assert "&lt;script&gt;alert(&#39;skill&#39;)" in whole


def test_no_page_is_too_large(tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "big")
    fat = "<&>'\"" * 200_000  # a million characters, each of which grows when it is escaped
    rollout = root / "steps" / "step_0001" / "rollout"
    rows = [{"id": f"item-{n}", "hard": n % 2, "question": fat[:9000], "response": fat[:9000]} for n in range(300)]
    long = fat[:400_000]
    rows[0] |= {"question": long, "predicted_answer": long, "more": long, "fail_reason": long}
    (rollout / "results.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    talk = [{"role": "user", "content": fat} for _ in range(6)]
    write(root, "steps/step_0001/rollout/predictions/item-0/conversation.json", talk)
    write(root, "best_skill.md", "".join(f"- {fat[:300]}\n" for _ in range(1300)))
    write(root, "steps/step_0001/candidate_skill.md", fat)
    write(root, "events.jsonl", "".join(json.dumps({"event": "note", "text": fat[:3000]}) + "\n" for _ in range(900)))
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    item = "/item?pass=steps/step_0001/rollout&id=item-0"
    for tab in (*TABS, "/steps/1", "/items?pass=steps/step_0001/rollout", item, f"{item}&page=2"):
        answer = client.get(f"/run/{run}{tab}")
        assert answer.status_code == 200, tab
        assert len(answer.content) < LIMIT, tab


def test_a_trajectory_that_is_too_large_is_said_so(tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "big")
    path = root / "steps/step_0001/rollout/predictions/train1/conversation.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as handle:
        handle.truncate(200 << 20)  # a hole: 200 MB that take no room
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    start = time.monotonic()
    page = client.get(f"/run/{run}/item?pass=steps/step_0001/rollout&id=train1")
    assert page.status_code == 200
    assert "too large" in page.text
    assert time.monotonic() - start < 2


def test_lists_are_paged(tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "long")
    rows = [{"id": f"item-{n:04}", "hard": int(n % 3 == 0), "question": f"Question {n}?"} for n in range(5000)]
    results = root / "steps" / "step_0001" / "rollout" / "results.jsonl"
    results.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    address = f"/run/{run}/items?pass=steps/step_0001/rollout"
    first, last, failed = (client.get(address + more).text for more in ("", "&page=100", "&only=failed"))
    assert "item-0000" in first
    assert "item-0050" not in first
    assert "items 1–50 of 5,000" in first
    assert "item-4999" in last
    assert "items 1–50 of 3,333" in failed
    assert client.get(f"{address}&page=99999999999999999").status_code == 200
    assert client.get(f"{address}&page=-1").status_code == 200


def test_two_hundred_runs_are_listed_sorted_and_found_by_their_small_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "read_rows", lambda *_: pytest.fail("rows of items were read"))
    template = published_run(tmp_path / "template")
    for number in range(200):
        target = tmp_path / "runs" / f"run-{number:03}"
        target.mkdir(parents=True)
        for name in ("config.json", "history.json", "summary.json", "runtime_state.json"):
            shutil.copy(template / name, target / name)
        write(target, "selection_eval_baseline/results.jsonl", '{"id": "a", "hard": 1}')
        write(target, "runtime_state.json", {"best_score": number / 200, "best_origin": "slow_update_epoch_02"})
    client = dashboard(tmp_path / "runs")
    page = client.get("/").text
    assert len(re.findall('name="run"', page)) == 50
    assert "runs 1–50 of 200" in page
    best = re.findall(r"run-(\d+)</a>", client.get("/?sort=best").text)
    assert best == [f"{number:03}" for number in range(199, 149, -1)]
    worst = re.findall(r"run-(\d+)</a>", client.get("/?sort=best&dir=up&page=4").text)
    assert worst[-1] == "199"
    assert re.findall(r"run-(\d+)</a>", client.get("/?q=run-07").text).__len__() == 10
    assert "No run has that name" in client.get("/?q=nothing").text


def test_no_runs_at_all(tmp_path: Path) -> None:
    client = dashboard(tmp_path / "none")
    assert "Start the first run" in client.get("/").text
    assert client.get("/compare").status_code == 200
    assert client.get("/evaluate").status_code == 200
    assert client.get("/nope").status_code == 404
    assert client.put("/new").status_code == 405


def test_a_run_that_goes_away_or_is_torn(tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "one")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    (root / "history.json").write_text('[{"step": 1', encoding="utf-8")
    page = client.get(f"/run/{run}")
    assert page.status_code == 200
    assert "history.json is torn" in page.text
    shutil.rmtree(root)
    assert client.get(f"/run/{run}").status_code == 404


def test_an_item_of_any_id_has_a_page(tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "run")
    ids = ["x" * 500, "y" * 20_000, "half \ud800", "", "a&b=c/../d"]
    rows = [{"id": id_, "hard": 0, "question": f"question {number}"} for number, id_ in enumerate(ids)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (root / "test_eval" / "results.jsonl").write_text(lines, encoding="utf-8")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    page = client.get(f"/run/{run}/items?pass=test_eval").text
    links = re.findall(r'href="(/run/[^"]+/item\?[^"]*)"', page)
    assert len(links) == len(ids)
    for number, link in enumerate(links):
        assert f"question {number}" in client.get(unescape(link)).text


def test_the_report_and_a_comparison_can_be_kept(trained: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in ("first", "zwei & <drei>"):
        shutil.copytree(trained / "mine", root / name)
    client = dashboard(root)
    runs = run_ids(client)
    for run in runs:
        assert f'href="/run/{run}/report.html"' in client.get(f"/run/{run}").text
    report = client.get(f"/run/{runs[0]}/report.html")
    assert re.fullmatch(r'attachment; filename="[\w.-]+\.html"', report.headers["content-disposition"])
    assert "held-out test items" in safe(report.text).text
    address = re.search(r'href="(/comparison\.html[^"]*)"', client.get("/compare", params={"run": runs}).text)
    assert address is not None
    kept = client.get(unescape(address[1]))
    assert kept.headers["content-disposition"] == 'attachment; filename="comparison.html"'
    assert "Items that changed" in safe(kept.text).text
    assert client.get("/comparison.html").status_code == 404
    assert client.get("/run/nope/report.html").status_code == 404


def test_an_evaluation_has_no_report_to_keep(tmp_path: Path) -> None:
    published_evaluation(tmp_path / "runs" / "scored")
    client = dashboard(tmp_path / "runs")
    (run,) = run_ids(client)
    assert "report.html" not in client.get(f"/run/{run}").text
    assert client.get(f"/run/{run}/report.html").status_code == 404


def test_the_configuration_that_is_offered_first_has_its_data(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    offered = re.compile(r'name="config" value="([^"]+)"')
    assert offered.findall(dashboard(tmp_path / "runs").get("/new").text) == ["configs/quickstart.yaml"]
    write_split(tmp_path / "data" / "searchqa_split")
    assert offered.findall(dashboard(tmp_path / "runs").get("/new").text) == ["configs/searchqa/default.yaml"]


def test_what_an_evaluation_inherits_from_its_run_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    page = dashboard(tmp_path / "runs").get("/evaluate").text
    assert "as the run was" in page
    assert "gpt-" not in page
