"""What each check of `runci whitespace` is called, why it is there, and an example.

`bad` and `good` are Python byte strings, so that what cannot be seen can be read.
"""

from __future__ import annotations

from runci.finding import RuleInfo

RULES: tuple[RuleInfo, ...] = (
    RuleInfo(
        "WS100",
        "not-checked",
        "A file, or a part of its checks, could not be checked.",
        "A file that is passed over in silence looks clean. Text that is not UTF-8 is only a note: "
        "everything but non-breaking and zero-width characters is checked in it.",
        r"b'# d\xe9j\xe0 vu\n'",
        r"b'# d\xc3\xa9j\xc3\xa0 vu\n'",
    ),
    RuleInfo(
        "WS101",
        "trailing-whitespace",
        "Blanks at the end of a line (git: blank-at-eol).",
        "They cannot be seen, and they turn up in later diffs. Two spaces are allowed at the end "
        "of a Markdown line, where they mean a line break.",
        r"b'x = 1  \n'",
        r"b'x = 1\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS102",
        "no-final-newline",
        "The last line has no newline.",
        "The next line that is added changes this one too, and tools that join files glue lines.",
        r"b'x = 1'",
        r"b'x = 1\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS103",
        "blank-lines-at-end",
        "Blank lines at the end of the file (git: blank-at-eof).",
        "They grow unseen, and whoever appends to the file has to think about them.",
        r"b'x = 1\n\n'",
        r"b'x = 1\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS104",
        "carriage-return",
        "Lines end with CRLF or a lone CR, and git does not convert them.",
        "Scripts with CRLF do not start on Linux, and every line differs for a colleague whose "
        "editor writes LF. A lone CR is not mended: it may be meant.",
        r"b'x = 1\r\ny = 2\r\n'",
        r"b'x = 1\ny = 2\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS105",
        "mixed-line-ends",
        "Some lines of a file end with CRLF, others with LF.",
        "An editor that makes them the same changes lines that nobody touched.",
        r"b'x = 1\r\ny = 2\n'",
        r"b'x = 1\ny = 2\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS106",
        "space-before-tab",
        "A space stands before a tab in the indentation (git: space-before-tab).",
        "It looks right at one tab width only. Which one is meant, only the author knows, so it is "
        "not mended.",
        r"b'case 1:\n  \tbreak\n'",
        r"b'case 1:\n\tbreak\n'",
    ),
    RuleInfo(
        "WS107",
        "tab-in-indentation",
        "A tab in the indentation of Python, or where the attribute tab-in-indent asks.",
        "Python refuses tabs that do not agree with spaces, and columns differ between editors. "
        "Mended where a file is indented with tabs only and stays the same program.",
        r"b'if x:\n\ty = 1\n'",
        r"b'if x:\n    y = 1\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS108",
        "spaces-in-indentation",
        "As many spaces as a tab, where the attribute indent-with-non-tab asks for tabs.",
        "The repository's own .gitattributes or core.whitespace forbids it.",
        r"b'int f() {\n        return 1;\n}\n'",
        r"b'int f() {\n\treturn 1;\n}\n'",
    ),
    RuleInfo(
        "WS109",
        "byte-order-mark",
        "The file starts with a byte-order mark.",
        "It hides in front of `#!` and of the first word, and UTF-8 needs none.",
        r"b'\xef\xbb\xbfx = 1\n'",
        r"b'x = 1\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS110",
        "non-breaking-space",
        "A non-breaking space in source; prose may have them.",
        "It looks like a space and is none: Python refuses it, a shell takes it for a word. In a "
        "comment it is mended.",
        r"b'x = 1  # a\xc2\xa0b\n'",
        r"b'x = 1  # a b\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS111",
        "zero-width-character",
        "A character without width in source; prose may have them, and so may words and emoji.",
        "Two names that look the same are different, and a search finds neither. In a comment it "
        "is mended.",
        r"b'x = 1  # na\xe2\x80\x8bme\n'",
        r"b'x = 1  # name\n'",
        fixable=True,
    ),
    RuleInfo(
        "WS112",
        "bidirectional-control",
        "A control character that reorders text on the screen.",
        "A reviewer sees other code than the compiler does (CVE-2021-42574). Never mended: a "
        "person must read what is there. Write it as an escape where it is meant.",
        r"b'admin = \"\xe2\x80\xae\"\n'",
        r"b'admin = \"\\u202e\"\n'",
    ),
    RuleInfo(
        "WS113",
        "conflict-marker",
        "A conflict marker that a merge left.",
        "Half of a merge was committed. `=======` counts only in a file that has another marker: "
        "it also underlines headings. Never mended: somebody has to choose a side.",
        r"b'<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> topic\n'",
        r"b'x = 2\n'",
    ),
)

BY_ID = {rule.id: rule for rule in RULES}

REMEDIES = {
    "WS100": "",
    "WS101": "delete the blanks at the end of the line",
    "WS102": "end the last line with a newline",
    "WS103": "delete the blank lines at the end",
    "WS104": "save the file with LF, or say in .gitattributes which files have CRLF: "
    "`*.bat text eol=crlf`",
    "WS105": "save the file with LF",
    "WS106": "indent with tabs alone or spaces alone",
    "WS107": "indent with spaces",
    "WS108": "indent with tabs",
    "WS109": "save the file as UTF-8 without a byte-order mark",
    "WS110": "write a space, or the escape \\u00a0 where it is meant",
    "WS111": "delete it, or write an escape where it is meant",
    "WS112": "read the line as bytes; delete the control or write it as an escape",
    "WS113": "finish the merge: keep one side and delete the markers",
}
