// Calls `xcvm serve --grpc` with @grpc/grpc-js and the definitions of its services: node calls.mjs MODULES DEFINITIONS ADDRESS
// IMAGE WANTED. IMAGE and WANTED are the bytes of an input and of the result that `xcvm run` has.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, definitions, address, image, wanted] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const options = { keepCase: true, longs: String, defaults: true, includeDirs: [definitions] };
const load = (file) => grpc.loadPackageDefinition(loader.loadSync(file, options));
const { GRPCInferenceService } = load("inference.proto").inference;
const { Health } = load("health.proto").grpc.health.v1;
const credentials = grpc.credentials.createInsecure();
const gzip = { "grpc.default_compression_algorithm": 2 };
const client = new GRPCInferenceService(address, credentials);
const clients = [client];

const call = (name, request = {}, settings = {}, on = client) =>
  new Promise((resolve, reject) => on[name](request, { deadline: Date.now() + 20000, ...settings },
    (error, answer) => (error ? reject(error) : resolve(answer))));
const fails = (code, part, ...args) => assert.rejects(call(...args), (error) => error.code === code && error.details.includes(part));

assert.equal((await call("ServerLive")).live, true);
assert.equal((await call("ServerReady")).ready, true);
assert.equal((await call("ModelReady", { name: "digits" })).ready, true);
assert.equal((await call("ModelReady", { name: "none" })).ready, false);
assert.equal((await call("ServerMetadata")).name, "xcvm");
const metadata = await call("ModelMetadata", { name: "digits" });
assert.deepEqual(metadata.inputs[0].shape, ["-1", "1", "8", "8"]);

// Raw, compressed and typed requests have the bits of `xcvm run`.
const bytes = readFileSync(image), result = readFileSync(wanted);
const floats = [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)];
const tensor = { name: "image", datatype: "FP32", shape: [bytes.length / 256, 1, 8, 8] };
const raw = { model_name: "digits", id: "\u00e9", inputs: [tensor], raw_input_contents: [bytes] };
for (const settings of [{}, gzip]) {
  const own = new GRPCInferenceService(address, credentials, settings);
  clients.push(own);
  const answer = await call("ModelInfer", raw, {}, own);
  assert.equal(answer.id, "\u00e9");
  assert.ok(answer.raw_output_contents[0].equals(result));
}
const typed = await call("ModelInfer", { model_name: "digits", inputs: [{ ...tensor, contents: { fp32_contents: floats } }] });
assert.ok(Buffer.from(new Float32Array(typed.outputs[0].contents.fp32_contents).buffer).equals(result));

// Many calls on one connection.
const answers = await Promise.all(Array.from({ length: 500 }, () => call("ModelInfer", raw)));
assert.ok(answers.every((answer) => answer.raw_output_contents[0].equals(result)));

// Errors, with messages that are not ASCII; deadlines; cancellation.
await fails(grpc.status.NOT_FOUND, 'no model "\u00e9%" is ready', "ModelInfer", { ...raw, model_name: "\u00e9%" });
await fails(grpc.status.INVALID_ARGUMENT, 'input "image"', "ModelInfer", { ...raw, raw_input_contents: [bytes.subarray(4)] });
const endless = { model_name: "endless", inputs: [{ name: "x", datatype: "FP32", shape: [2] }], raw_input_contents: [Buffer.alloc(8)] };
await fails(grpc.status.DEADLINE_EXCEEDED, "", "ModelInfer", endless, { deadline: Date.now() + 300 });
await new Promise((resolve) => {
  const running = client.ModelInfer(endless, (error) => {
    assert.equal(error.code, grpc.status.CANCELLED);
    resolve();
  });
  setTimeout(() => running.cancel(), 100);
});
assert.ok((await call("ModelInfer", raw)).raw_output_contents[0].equals(result));

const health = new Health(address, credentials);
clients.push(health);
assert.equal((await call("Check", { service: "" }, {}, health)).status, 1);
const watch = health.Watch({ service: "" });
await new Promise((resolve) => watch.once("data", (answer) => resolve(assert.equal(answer.status, 1))));
watch.on("error", () => {});
watch.cancel();
clients.forEach((one) => one.close());
console.log("grpc-js: all calls answered as expected");
