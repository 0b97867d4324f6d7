/* What the tests do in a page and in a worker of it. Returns a text that says what failed, or "ok". */
export async function check() {
    const { Program, XcvmError } = await import('/package/js/index.js');
    const text = await (await fetch('/linear.xcvm')).text();
    const program = await Program.assemble(text), session = program.createSession();
    const y = session.run({ x: [1, 2] }).y;
    if (String(y.data) !== '9.5,12.5,15.5')
        return `y is ${y.data}`;
    const { instructions } = session.profile();
    if (instructions.length !== 4)
        return `${instructions.length} instructions`;
    const errors = [];
    for (const wrong of [() => session.run({ x: 1 }), () => session.run({ z: 1 }), () => program.createSession({ memoryLimit: 1 }).run({ x: [1, 2] })])
        try {
            wrong();
        } catch (error) {
            errors.push(error instanceof XcvmError);
        }
    if (String(errors) !== 'true,true,true')
        return `errors are ${errors}`;
    program.dispose();
    for (let i = 0; i < 50; i++) {
        const again = await Program.assemble(text);
        again.createSession().run({ x: new Float32Array(i % 10 === 0 ? 8 << 20 : 2) });
        again.dispose();
    }
    try {
        await Program.load('/none.bin');
        return 'a program that is not there was loaded';
    } catch (error) {
        if (!(error instanceof XcvmError) || !/404/.test(error.message))
            return `${error}`;
    }
    const { InferenceSession, Tensor } = await import('/package/js/onnxruntime-web.js');
    const model = await InferenceSession.create('/model.onnx');
    const { shape } = model.inputMetadata[0], x = new Tensor('float32', new Float32Array(shape.reduce((a, b) => a * b, 1)), shape);
    const result = await model.run({ [model.inputNames[0]]: x });
    if (Math.abs(result[model.outputNames[0]].data[0] - 1 / shape[0]) > 1e-6)
        return `softmax is ${result[model.outputNames[0]].data}`;
    await model.release();
    const warnings = [], { warn } = console;
    console.warn = (message) => warnings.push(message);
    const shared = await Program.assemble(text, { threads: 2 }), more = await Program.assemble(text, { threads: 2 });
    console.warn = warn;
    if (shared.threads !== (crossOriginIsolated ? 2 : 1))
        return `${shared.threads} threads`;
    if (warnings.length !== (crossOriginIsolated ? 0 : 1) || !warnings.every((message) => /Cross-Origin-Opener-Policy: same-origin/.test(message)))
        return `warnings: ${warnings.join('; ')}`;
    const inputs = { x: new Float32Array(1 << 18).fill(0.5) }, sums = new Set();
    let threads = 0;
    for (let i = 0; i < 20 || (crossOriginIsolated && threads < 2 && i < 5000); i++) {
        const { outputs, instructions } = shared.createSession().profile(inputs);
        sums.add(outputs.y.data.reduce((a, b) => a + b, 0));
        threads = Math.max(threads, ...instructions.map((instruction) => instruction.threads));
    }
    if (sums.size !== 1 || threads !== shared.threads)
        return `${sums.size} results on ${threads} threads`;
    shared.dispose();
    more.dispose();
    return 'ok';
}
