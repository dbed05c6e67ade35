"""Train a skill for a task of your own. The models are behind OPENAI_API_KEY, or behind OPENAI_BASE_URL."""

from __future__ import annotations

from typing import Any

import skillopt


def house_style(cents: int) -> str:  # what the skill has to find out: 123456 cents are EUR 1'234.56
    return f"EUR {cents / 100:,.2f}".replace(",", "'")


def prompt(item: dict[str, Any]) -> str:
    return f"Write {item['cents'] / 100} euros as an amount on an invoice."


def score(item: dict[str, Any], answer: str) -> bool:
    return bool(answer == item["answer"])


if __name__ == "__main__":
    amounts = range(99, 900_000, 15_001)
    items = [{"id": f"{cents}", "cents": cents, "answer": house_style(cents)} for cents in amounts]
    env = skillopt.make_env(items, prompt, score, name="invoice", split_ratio="1:1:1")
    run = skillopt.train(env=env, target="gpt-5-mini", epochs=2, batch_size=10, out_root="outputs/invoice")
    print(run.best_skill)
    print(f"test: {run.summary['baseline_test_hard']:.2f} -> {run.summary['test_hard']:.2f}")
