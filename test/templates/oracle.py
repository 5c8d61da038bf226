"""Renders conversations with transformers and prints the digests of recorded.json. It is no part of the tests, which need no Python.

    bun test/templates/long.ts --write conversations.jsonl
    python test/templates/oracle.py conversations.jsonl FOLDER... > recorded.json

needs transformers 5 and Jinja 3.1.6. Each FOLDER holds templates, NAME.jinja. With --texts the texts themselves are printed, a line of
JSON for each conversation.
"""
import hashlib
import json
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

BLOCK = 50
REFUSED = "\0refused"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def rendered(template, conversation):
    """The text, or what stands for a refusal, by the template's own raise_exception or by an operation of Python."""
    options = conversation["options"]
    try:
        texts, _ = render_jinja_template(
            [conversation["messages"]],
            tools=options.get("tools"),
            chat_template=template,
            add_generation_prompt=options["addGenerationPrompt"],
            **TOKENS,
            **options["variables"],
        )
        return texts[0]
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, AttributeError, KeyError):
        return REFUSED


def main():
    texts = "--texts" in sys.argv
    path, *folders = [argument for argument in sys.argv[1:] if argument != "--texts"]
    conversations = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").split("\n") if line]
    found = {}
    for file in sorted(file for folder in folders for file in Path(folder).glob("*.jinja")):
        template = file.read_text(encoding="utf-8")
        all_texts = [rendered(template, conversation) for conversation in conversations]
        if texts:
            for text in all_texts:
                print(json.dumps([file.stem, text]))
        digests = [hashlib.sha256(text.encode("utf-8")).hexdigest() for text in all_texts]
        blocks = ["".join(digests[i : i + BLOCK]) for i in range(0, len(digests), BLOCK)]
        found[file.stem] = {
            "sha256": hashlib.sha256(template.encode("utf-8")).hexdigest(),
            "refused": sum(text == REFUSED for text in all_texts),
            "blocks": [hashlib.sha256(block.encode()).hexdigest()[:16] for block in blocks],
        }
    if not texts:
        about = f"Recorded with transformers {transformers.__version__} and Jinja {jinja2.__version__} by oracle.py: digests of {len(conversations)} random conversations of seed 18 in blocks of {BLOCK}."
        print(json.dumps({"about": about, "templates": found}, indent=1))


main()
