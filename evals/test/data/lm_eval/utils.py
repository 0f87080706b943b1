"""Functions in the manner of those that tasks of lm-eval have beside their YAML."""
import ast
import re
import string
from functools import partial

import datasets
import numpy as np


LETTERS = ["A", "B", "C", "D"]
_FIRST: str = r"^\s*(\w+)"
CONNECTORS = {"cause": "because", "effect": "therefore"}


def clean(text):
    text = text.strip()
    # Remarks in brackets are no part of the text.
    text = re.sub("\\[.*?\\]", "", text)
    text = re.sub(r"(\w+)@(\w+)", r"\2 at \1", text)
    return text.replace("  ", " ")


def process_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    def _process_doc(doc):
        ctx = doc["first"] + " " + doc["second"].capitalize()
        return {
            "query": clean(doc["label"] + ": " + ctx),
            "choices": [clean(ending) for ending in doc["options"] if ending],
            "gold": int(doc["gold"]),
        }

    return dataset.map(_process_doc)


def keep(dataset, subject):
    return dataset.filter(lambda x: x["kind"] == subject and len(x["options"]) > 1)


keep_effects = partial(keep, subject="effect")


def renamed(dataset):
    return dataset.map(lambda doc: {"n": len(doc["first"])}, remove_columns=["first", "second"])


def selected(dataset):
    return list(dataset.select(range(0, 3, 2)))


def lettered(doc, including_answer=True) -> str:
    """
    Question: <question>
    """
    prompt = "Question:\n"
    options: list[str] = doc["options"]
    for i, opt in enumerate(options):
        if i >= len(LETTERS):
            break
        prompt += f"{LETTERS[i]}. {opt.strip()}\n"
    if including_answer:
        prompt += "Answer: {} ({kind})".format(LETTERS[int(doc["gold"])], kind=doc["kind"])
    elif not doc.get("absent"):
        prompt += f"Answer{{}}: {doc['gold']!r} {[1, 'a', None, True]}"
    else:
        prompt += "never"
    return prompt


doc_to_text = partial(lettered, including_answer=False)


def before_blank(doc):
    idx = doc["first"].find("e")
    return [doc["first"][:idx] + one for one in (doc["second"][-3:], doc["second"][1:-1])]


def after_blank(doc):
    return doc["first"][doc["first"].index("e") + 1 :].strip(" ,.!?")


def connected(doc):
    connector = {"cause": "because", "effect": "therefore"}[doc["kind"]]
    assert_same = CONNECTORS[doc["kind"]] == connector
    return doc["first"].strip()[:-1] + f" {connector} {assert_same}"


def lowered(choice):
    return choice[0].lower() + choice[1:]


def chosen(doc):
    correct = doc["options"][0] if doc["kind"] == "cause" else doc["options"][-1]
    return " " + lowered(correct)


def evaluated(doc):
    problems = ast.literal_eval(doc["problems"])
    text = ""
    for problem in problems[:-1]:
        if problem["q"][-2:] == "_.":
            text += problem["q"][:-2] + problem["o"][{"A": 0, "B": 1}[problem["a"]]] + "\n"
        else:
            text += "Q: " + problem["q"] + "\n"
    return text + str(problems[-1]["n"] * 3 - 7 // 2 - -7 // 2 + -7 % 3)


def listed(doc):
    found = []
    for c, (k, v) in zip(string.ascii_lowercase, doc["table"].items()):
        found.append((c.upper(), k, v))
    a, (b, *_rest) = 1, (2, 3) if False else (2,)
    return found


def pairs(doc):
    found = []
    for c, (k, v) in zip(string.ascii_lowercase, doc["table"].items()):
        found.append([c.upper(), k, v])
    while len(found) > 2:
        found.pop()
    found.extend(sorted(doc["options"], key=lambda o: (len(o), o), reverse=True))
    return found + [max(doc["options"]), min(3, 1), sum(len(o) for o in doc["options"]), any(o == "" for o in doc["options"])]


def matched(doc):
    found = re.findall(r"(\w)(\w)", doc["second"])
    first = re.search(_FIRST, doc["second"])
    return [list(one) for one in found] + [first.group(1) if first else None, first is not None, re.match("zz", doc["second"]) is None]


def described(doc):
    return "; ".join(f"{k}={v}" for k, v in sorted({**doc["table"], "z": [doc["second"]]}.items()) if k not in ["b"])


def words(doc):
    return [
        doc["first"].split(), doc["first"].split("e"), doc["first"].split(" ", 1), doc["second"].upper().lower().count("o"),
        doc["first"].rstrip("."), doc["second"].startswith(("O", "x")), doc["second"].rfind("o"), "ab" * 2, [0] + [1] * 0 if False else [0],
        '"é\u00e9\x41\101\
'   "joined" r'\n' """ 'both' "kinds" """, doc["second"] in doc["first"], not doc["options"] or "or", 1 < 2, "a" < "b" and "z", len(doc["table"]),
    ]


def joined(doc):
    return str({"it's": ('x"', "y'"), "q\n": ["é", -1, ("one",), {}]}) + repr("both ' and \"") + str(doc["table"])


def shots():
    return [{"first": "one", "second": "two"}] + [{"first": w, "second": w} for w in "ab"]


def stepped(doc):
    return doc["first"][::2]


def classes(doc):
    return np.array(doc["options"])


def opened(doc):
    return open("/etc/passwd").read()


def imported(doc):
    return __import__("os").system("true")


def dunder(doc):
    return doc["first"].__class__.__mro__


def compared(doc):
    return 1 < len(doc["options"]) < 5


def floating(doc):
    return 1 / 3


def padded(doc):
    return f"{doc['gold']:>3}"


def endless(doc):
    while True:
        pass


def deep(doc):
    return deep(doc)


def large(doc):
    text = "x"
    for _ in range(100):
        text = text + text
    return text


CHANGED = ["a"]


def changing(doc):
    CHANGED.append(doc["first"])
    return CHANGED


TWICE = 1
TWICE = 2


def bound_twice(doc):
    return TWICE


@partial
def decorated(doc):
    return doc


def caught(doc):
    try:
        return doc["absent"]
    except KeyError:
        return "no"


def missing(doc):
    return doc["absent"]
