// Reads {"contexts": {…}, "expressions": […]} from standard input and writes what GitHub's
// evaluator makes of each expression: {"value": …} or {"error": "…"}.
import { Evaluator, Lexer, Parser, data } from "@actions/expressions";

function plain(value) {
  switch (value.kind) {
    case data.Kind.Array:
      return value.values().map(plain);
    case data.Kind.Dictionary:
      return Object.fromEntries(value.pairs().map((pair) => [pair.key, plain(pair.value)]));
    case data.Kind.Number:
      return Number.isFinite(value.value) ? value.value : { number: String(value.value) };
    case data.Kind.Null:
      return null;
    default:
      return value.value;
  }
}

function evaluate(text, contexts, names) {
  try {
    const tree = new Parser(new Lexer(text).lex().tokens, names, []).parse();
    return { value: plain(new Evaluator(tree, contexts).evaluate()) };
  } catch (error) {
    return { error: error.message };
  }
}

let input = "";
for await (const part of process.stdin) input += part;
const asked = JSON.parse(input);
const contexts = JSON.parse(JSON.stringify(asked.contexts), data.reviver);
const names = Object.keys(asked.contexts);
const answers = asked.expressions.map((text) => evaluate(text, contexts, names));
process.stdout.write(JSON.stringify(answers));
