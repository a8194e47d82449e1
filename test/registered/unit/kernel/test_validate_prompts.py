"""Prompts are token ids with a hash; what is no prompt is refused with its line."""

from __future__ import annotations

import hashlib
import json
import tempfile
import unittest
from pathlib import Path

from tokenizers import Tokenizer as Trained
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from runci import register_cpu_ci
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.prompts import (
    Characters,
    Prompt,
    batches,
    check_vocabulary,
    prompt_hash,
    read,
    seeded,
    tokenizer_of,
)

register_cpu_ci(est_time=4, stage="base-b", runner_config="cpu")


class TestHash(unittest.TestCase):
    """Branch: bytes only."""

    def test_it_is_of_the_ids_as_unsigned_32_bit_little_endian(self) -> None:
        table = [
            ([[1, 2]], b"\1\0\0\0\2\0\0\0"),
            ([[1], [2]], b"\1\0\0\0\2\0\0\0"),
            ([[2, 1]], b"\2\0\0\0\1\0\0\0"),
            ([[0x01020304, 2**32 - 1]], b"\4\3\2\1\xff\xff\xff\xff"),
            ([], b""),
        ]
        for prompts, data in table:
            with self.subTest(prompts=prompts):
                self.assertEqual(prompt_hash(prompts), hashlib.sha256(data).hexdigest())

    def test_what_does_not_fit_is_refused(self) -> None:
        for wrong in (-1, 2**32, 1.5):
            with self.subTest(wrong=wrong), self.assertRaises(UsageError):
                prompt_hash([[1, wrong]])


class TestRead(unittest.TestCase):
    """Branch: files only."""

    def read(self, *rows: object, tokenizer: Characters | None = None) -> list[Prompt]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "prompts.jsonl")
            text = [row if isinstance(row, str) else json.dumps(row) for row in rows]
            path.write_text("\n".join(text) + "\n")
            return read(path, tokenizer)

    def test_ids_and_texts(self) -> None:
        found = self.read(
            {"input_ids": [3, 0], "expected": "x"},
            "",
            [5],
            {"id": "b", "text": "Ab"},
            {"id": 7, "text": "1 + 1"},
            tokenizer=Characters(),
        )
        self.assertEqual([prompt.name for prompt in found], ["1", "2", "b", "7"])
        self.assertEqual([prompt.ids for prompt in found[:3]], [(3, 0), (5,), (0, 1)])
        self.assertEqual(found[0].row["expected"], "x")

    def test_a_line_separator_within_a_text_ends_no_line(self) -> None:
        [found] = self.read('{"input_ids": [1], "expected": "a\u2028b\x85c"}')
        self.assertEqual(found.row["expected"], "a\u2028b\x85c")

    def test_what_is_no_prompt_names_its_line(self) -> None:
        table: list[object] = [
            "{",
            "[]",
            '["a"]',
            "1",
            "NaN",
            "[" * 100_000,
            {},
            {"input_ids": []},
            {"input_ids": [1, True]},
            {"input_ids": [1, -1]},
            {"input_ids": [1, 2**32]},
            {"input_ids": [1.0]},
            {"input_ids": "12"},
            {"input_ids": [1], "text": "a"},
            {"text": 5},
            {"text": ""},
            {"text": "no tokenizer"},
            {"input_ids": [1], "id": ""},
            {"input_ids": [1], "id": None},
            {"input_ids": [1], "id": "1"},
        ]
        for wrong in table:
            with self.subTest(wrong=wrong), self.assertRaisesRegex(UsageError, r"jsonl:2: "):
                self.read({"input_ids": [1]}, wrong)

    def test_nothing_to_read_is_wrong_use(self) -> None:
        with self.assertRaises(UsageError):
            self.read("", " ")
        with self.assertRaises(UsageError):
            read(Path("there-is-none.jsonl"))

    def test_ids_that_the_model_lacks(self) -> None:
        check_vocabulary([Prompt("a", (0, 63))], 64)
        with self.assertRaisesRegex(UsageError, "a: id 64"):
            check_vocabulary([Prompt("a", (0, 64))], 64)


class TestTokenizers(unittest.TestCase):
    """Branch: the small models' characters and a checkpoint's own tokenizer."""

    def test_every_id_of_the_small_models_is_a_character(self) -> None:
        tokenizer = tokenizer_of("small")
        assert tokenizer is not None
        ids = list(range(64))
        self.assertEqual(tokenizer.encode(tokenizer.decode(ids)), ids)
        with self.assertRaises(UsageError):
            tokenizer.encode("ä")

    def test_that_of_a_checkpoint(self) -> None:
        trained = Trained(WordLevel({"<s>": 0, "two": 1, "words": 2}, unk_token="<s>"))
        trained.pre_tokenizer = Whitespace()
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(tokenizer_of(folder))
            PreTrainedTokenizerFast(tokenizer_object=trained, bos_token="<s>").save_pretrained(
                folder
            )
            tokenizer = tokenizer_of(folder)
            assert tokenizer is not None
            self.assertEqual(tokenizer.encode("words two"), [2, 1])
            self.assertEqual(tokenizer.decode([0, 2, 1]), "words two")


class TestOrder(unittest.TestCase):
    """Branch: seeds and batches."""

    def test_a_seed_gives_the_same_prompts_everywhere(self) -> None:
        found = seeded(64, 2, 4)
        self.assertEqual([prompt.ids for prompt in found], [(54, 48, 26, 16), (32, 25, 50, 19)])
        self.assertEqual(found, seeded(64, 2, 4))
        self.assertNotEqual(found, seeded(64, 2, 4, seed=1))
        for wrong in ((0, 2, 4), (64, 0, 4), (64, 2, 0)):
            with self.assertRaises(UsageError):
                seeded(*wrong)

    def test_prompts_of_one_length_share_a_batch(self) -> None:
        prompts = [Prompt(str(i), (0,) * n) for i, n in enumerate((2, 3, 2, 2, 3))]
        found = [[prompt.name for prompt in batch] for batch in batches(prompts, 2)]
        self.assertEqual(found, [["0", "2"], ["3"], ["1", "4"]])


if __name__ == "__main__":
    unittest.main()
