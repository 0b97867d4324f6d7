// The peer of `make bench-serving`: fastify and onnxruntime-node. peer.js MODEL PORT MODULES
// POST /json has {"data": [...]} of the first input, POST /binary its bytes; the first output is answered in the same form.
"use strict";
const { createRequire } = require("module");
const load = createRequire(`${process.argv[4]}/node_modules/`);
const ort = load("onnxruntime-node");
const app = load("fastify")({ bodyLimit: 64 << 20 });

async function main() {
    const session = await ort.InferenceSession.create(process.argv[2], { intraOpNumThreads: 1, interOpNumThreads: 1 });
    const [input] = session.inputNames, [output] = session.outputNames;
    const shape = session.inputMetadata[0].shape.map((d) => (typeof d === "number" ? d : 1));
    const run = async (data) => (await session.run({ [input]: new ort.Tensor("float32", data, shape) }))[output];
    app.addContentTypeParser("application/octet-stream", { parseAs: "buffer" }, (request, body, done) => done(null, body));
    app.post("/json", async (request) => {
        const result = await run(Float32Array.from(request.body.inputs[0].data));
        return { outputs: [{ name: output, shape: result.dims, datatype: "FP32", data: Array.from(result.data) }] };
    });
    app.post("/binary", async (request, reply) => {
        const body = request.body;
        const result = await run(new Float32Array(body.buffer.slice(body.byteOffset, body.byteOffset + body.length)));
        reply.type("application/octet-stream");
        return Buffer.from(result.data.buffer, result.data.byteOffset, result.data.byteLength);
    });
    await app.listen({ port: Number(process.argv[3]), host: "127.0.0.1" });
    console.log("ready");
}
main();
