/* A worker thread of the VM: an instance of the module on the memory of another one. It runs ranges of loops until the
 * program's instance is dropped, which ends the worker. threads.js starts it. */
const ENOSYS = 52;

function imports(module, memory, origin) {
    const view = new DataView(memory.buffer);
    const provided = {
        /* As of the main thread: its clock has another origin. `view` covers the start of the memory and this thread's
         * stack, which was allocated before. */
        clock_time_get: (clock, precision, at) => {
            const now = clock === 0 ? Date.now() : performance.timeOrigin - origin + performance.now();
            view.setBigUint64(at >>> 0, BigInt(Math.round(now * 1e6)), true);
            return 0;
        },
        proc_exit: (code) => { throw new WebAssembly.RuntimeError(`exit with ${code}`); },
    };
    const given = { env: { memory } };
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
        if (kind === 'function')
            (given[from] ??= {})[name] = provided[name] ?? (() => ENOSYS);
    return given;
}

function run(port, { module, memory, stack, number, origin }) {
    const { exports } = new WebAssembly.Instance(module, imports(module, memory, origin));
    exports.__stack_pointer.value = stack;
    port.postMessage('started');
    try {
        const words = new Int32Array(memory.buffer), loops = exports.xcvm_thread_loops() >>> 2;
        for (let seen = 0;;) {
            seen = exports.xcvm_thread_run(number, seen);
            Atomics.wait(words, loops, seen);
        }
    } catch (error) {
        exports.__stack_pointer.value = stack;
        exports.xcvm_thread_fail();
        throw error;
    }
}

if (typeof process === 'object' && process.versions?.node && process.type !== 'renderer')
    import('#worker_threads').then(({ parentPort }) => parentPort.once('message', (data) => run(parentPort, data)));
else
    globalThis.onmessage = ({ data }) => run(globalThis, data);
