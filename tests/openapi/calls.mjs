// Calls through a validating proxy, with the OpenAPI description of the REST API: calls.mjs PROXY SERVER IMAGE WANTED. The proxy
// adds a header with what is wrong in the request and in the answer. No answer may be wrong, to good requests and to bad ones.
import assert from "node:assert";
import { readFileSync } from "node:fs";

const [proxy, server, imageFile, wantedFile] = process.argv.slice(2);
const floats = (file) => Array.from(new Float32Array(new Uint8Array(readFileSync(file)).buffer));
const key = { "x-api-key": "a-key-of-many-characters" };
let answers = 0;

// Returns the answer of a request that must end with `status`. A bad request violates the description too, if `isBad`.
const ask = async (status, method, path, body, { headers = key, isBad = false } = {}) => {
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const answer = await fetch(proxy + path, { method, headers: { ...headers, ...(text && { "content-type": "application/json" }) }, body: text });
  const what = `${method} ${path} ${text?.slice(0, 200)}`, content = await answer.text();
  const violations = JSON.parse(answer.headers.get("sl-violations") ?? "[]");
  assert.equal(answer.status, status, `${what}: ${content}`);
  assert.deepEqual(violations.filter((one) => one.location[0] !== "request"), [], `${what}: ${content}`);
  assert.equal(violations.length > 0, isBad, `${what}: ${JSON.stringify(violations)}`);
  answers++;
  return content === "" ? null : JSON.parse(content);
};
const input = (name, datatype, shape, data, more) => ({ name, datatype, shape, data, ...more });
const infer = (status, model, inputs, more, options) => ask(status, "POST", `/v2/models/${model}/infer`, { inputs, ...more }, options);
const x = input("x", "FP32", [2], [1, 2]);

// Good requests.
for (const path of ["", "/health/live", "/health/ready", "/models/stats", "/models/digits", "/models/digits/versions/1",
  "/models/digits/ready", "/models/digits/versions/1/ready", "/models/digits/stats", "/models/digits/versions/1/stats"])
  await ask(200, "GET", `/v2${path}`);
assert.deepEqual((await ask(200, "GET", "/v2/models/classes")).parameters, { class_names: "no\nyes", class_output: "y" });
await ask(200, "POST", "/v2/repository/index", "{}");
const digits = await infer(200, "digits", [input("image", "FP32", [3, 1, 8, 8], floats(imageFile))], { id: "q\"1" });
assert.equal(digits.id, "q\"1");
assert.deepEqual(digits.outputs[0].data.map(Math.fround), floats(wantedFile));
await infer(200, "doubles/versions/1", [input("x", "FP32", [2], [1, 2])], { outputs: [{ name: "y" }], parameters: { priority: 2 } });
await infer(200, "texts", [input("x", "BYTES", [2], ["a", "\u20ac"])]);
assert.deepEqual((await infer(200, "quotients", [input("x", "FP32", [2], [0, 1])])).outputs[0].data, [null, 1]);
for (const [model, datatype] of Object.entries({ u8: "UINT8", u16: "UINT16", u32: "UINT32", u64: "UINT64", i8: "INT8", i16: "INT16",
  i32: "INT32", i64: "INT64", f64: "FP64", bool: "BOOL" }))
  await infer(200, model, [input("x", datatype, [2], datatype === "BOOL" ? [true, false] : [0, 1])]);

// Bad requests.
await infer(404, "none", [x]);
await infer(404, "doubles/versions/7", [x]);
await ask(404, "GET", "/v2/models/none");
await ask(503, "GET", "/v2/models/none/ready");
for (const inputs of [[], [input("z", "FP32", [2], [1, 2])], [x, x], [input("x", "FP32", [3], [1, 2, 3])], [input("x", "FP32", [2], [1])],
  [input("x", "INT32", [2], [1, 2])], [input("x", "FP7", [2], [1, 2])], [input("x", "FP32", [2], [1, "a"])], [input("x", "FP32", [2], [1e99, 2])]])
  await infer(400, "doubles", inputs, {}, { isBad: inputs[0]?.datatype === "FP7" });
for (const body of [{}, { inputs: 7 }, { inputs: [7] }, { inputs: [{ name: "x" }] }, [], { inputs: [x], outputs: [{}] }, { inputs: [x], id: 7 },
  { inputs: [input("x", "FP32", [-2], [1, 2])] }, { inputs: [input(7, "FP32", [2], [1, 2])] }])
  await ask(400, "POST", "/v2/models/doubles/infer", body, { isBad: true });
await infer(400, "doubles", [x], { outputs: [{ name: "z" }] });
await ask(401, "GET", "/v2", undefined, { headers: {} });
await ask(401, "POST", "/v2/models/doubles/infer", { inputs: [x] }, { headers: { "x-api-key": "wrong" } });
await infer(413, "doubles", [input("x", "FP32", [2], Array(30000).fill(1))]);
await ask(400, "POST", "/v2/repository/models/none/load", "{}");

// A worker that is busy: too late in the run, and too many in the queue.
await infer(504, "endless", [x], { parameters: { timeout: 50000 } });
const statistics = async () => (await ask(200, "GET", "/v2/models/endless/stats")).model_stats[0];
const busy = [];
for (const count of ["running", "waiting"]) {
  const leaves = new AbortController();
  const options = { method: "POST", headers: key, body: JSON.stringify({ inputs: [x] }), signal: leaves.signal };
  busy.push({ leaves, ended: fetch(`${server}/v2/models/endless/infer`, options).catch(() => {}) });
  while ((await statistics())[count] < 1) await new Promise((resolve) => setTimeout(resolve, 20));
}
await infer(429, "endless", [x]);
busy.forEach((one) => one.leaves.abort());
await Promise.all(busy.map((one) => one.ended));

// The repository.
await ask(200, "POST", "/v2/repository/models/doubles/unload", "{}");
await ask(503, "GET", "/v2/models/doubles/ready");
await ask(200, "POST", "/v2/repository/index", "{\"ready\":true}");
await ask(200, "POST", "/v2/repository/models/doubles/load", "{}");
await infer(200, "doubles", [x]);
console.log(`prism: ${answers} answers are valid`);
