/* Programs and sessions of the VM. */
import { engineOf, nativeEngine } from './engines.js';
import { hasRelaxedSimd } from './features.js';
import { compileModule, describe, readBytes, XcvmError } from './source.js';
import { initThreads, usableThreads } from './threads.js';
import { checkDims, HeapTensor, plainValue, Tensor } from './values.js';
import { threadsEngine } from './wasm.js';

export { HeapTensor, initThreads, Tensor, XcvmError };

let vmModule = null;

/* Bundlers find files by such expressions. */
const vmFile = () => hasRelaxedSimd() ? new URL('./xcvm-relaxed.wasm', import.meta.url) : new URL('./xcvm.wasm', import.meta.url);

/** Loads the VM, once. `source` is a URL, bytes, a Response or a WebAssembly.Module; by default xcvm-relaxed.wasm or xcvm.wasm
 * beside this file, or in Node the native engine if it is installed. Program.load calls it. */
export async function init(source, { engine } = {}) {
    const native = source === undefined ? await nativeEngine(engine) : null;
    if (native !== null)
        return native;
    if (source !== undefined || vmModule === null) {
        const loading = compileModule(source ?? vmFile());
        /* A failure may pass, as of a network. */
        loading.catch(() => { if (vmModule === loading) vmModule = null; });
        vmModule = loading;
    }
    return vmModule;
}

/* The engine that a program is loaded into. With threads, WebAssembly has a module of its own. */
async function engineFor({ module, engine, threads }) {
    const chosen = module === undefined ? await nativeEngine(engine) : engineOf(await module);
    if (chosen?.engine === 'native')
        return chosen;
    const count = usableThreads(threads);
    return count > 1 ? threadsEngine(await initThreads(), count) : chosen ?? engineOf(await init(undefined, { engine: 'wasm' }));
}

function freezeInfos(infos) {
    return Object.freeze(infos.map((info) => Object.freeze({ ...info, dims: info.dims && Object.freeze(info.dims) })));
}

/** A loaded program. In WebAssembly it lives in an instance of the VM with a memory of its own. */
export class Program {
    #engine;
    #program;
    #sessions = new Set();

    /** Loads a program from a URL, path (Node), Response, Blob, ArrayBuffer or typed array. */
    static async load(source, options = {}) {
        const [engine, bytes] = await Promise.all([engineFor(options), readBytes(source, 'the program')]);
        return new Program(engine.engine, await engine.load(bytes, options.threads));
    }

    /** Loads a program from bytes into an instance of a compiled module (see `init`). */
    static loadSync(bytes, { module }) {
        if (!(bytes instanceof Uint8Array))
            throw new XcvmError('INVALID_ARGUMENT', `the program is ${describe(bytes)}; expected a Uint8Array`);
        const engine = engineOf(module);
        return new Program(engine.engine, engine.load(bytes));
    }

    /** Compiles an ONNX model and loads the program. The compiler's module is loaded for the first model. */
    static async compile(model, options = {}) {
        const { compile, initCompiler } = await import('./compiler.js');
        const { threads, ...others } = options, program = await compile(model, others);
        return Program.load(program, { threads, module: await initCompiler(undefined, others) });
    }

    /** Assembles a text into a program and loads it. */
    static async assemble(text, options = {}) {
        const module = await (options.module ?? init(undefined, options));
        return Program.load(engineOf(module).assemble(text), { ...options, module });
    }

    /** Not for callers; see `load`. */
    constructor(engine, program) {
        const { inputs, outputs, states, info } = program.describe();
        this.#engine = engine;
        this.#program = program;
        this.inputs = freezeInfos(inputs);
        this.outputs = freezeInfos(outputs);
        this.states = freezeInfos(states);
        this.info = Object.freeze(info);
    }

    /** The engine: 'wasm' or 'native'. */
    get engine() { return this.#engine; }

    #alive() {
        if (this.#program === null)
            throw new XcvmError('INVALID_ARGUMENT', 'the program is disposed');
        return this.#program;
    }

    /** Threads that sessions may use. */
    get threads() { return this.#alive().threads; }

    /** Bytes of the program's memory, which `dispose` gives back: in WebAssembly of its instance. */
    get memoryBytes() { return this.#alive().memoryBytes; }

    /** Returns the value of a metadata key, or null. */
    metadata(key) { return this.#alive().metadata(String(key)); }

    /** Returns the program's text assembly. */
    disassemble({ literalLimit = 0, explain = false } = {}) {
        return new TextDecoder().decode(this.#alive().disassemble(literalLimit, explain));
    }

    /** Creates a session. */
    createSession(options = {}) {
        const program = this.#alive();
        if (options.statesOf && Session.programOf(options.statesOf) !== this)
            throw new XcvmError('INVALID_ARGUMENT', 'statesOf is no session of this program, or it is disposed; states are shared within one program');
        const threads = program.sessionThreads(options.threads ?? 0);
        const session = new Session(this, program, { ...options, threads }, () => this.#sessions.delete(session));
        this.#sessions.add(session);
        return session;
    }

    /** Destroys the program and its sessions, and gives their memory back. */
    dispose() {
        if (this.#program === null)
            return;
        if ([...this.#sessions].some((session) => session.running))
            throw new XcvmError('INVALID_ARGUMENT', 'a session of the program is running; dispose it after the run');
        for (const session of [...this.#sessions])
            session.dispose();
        this.#program.destroy();
        this.#program = null;
    }
}

/** Registers, states and memory for runs of a program. */
export class Session {
    #session;
    #functions;
    #forget;
    #run = 0; /* number of the latest run, for views of its results */
    #bindings; /* number of bindings of each input, for views of it */

    /** Not for callers; see Program.createSession. */
    constructor(program, engineProgram, options, forget) {
        const functions = Object.entries(options.functions ?? {});
        this.program = program;
        this.running = false;
        this.#functions = functions.map(([, call]) => call);
        this.#forget = forget;
        this.#bindings = new Array(program.inputs.length).fill(0);
        this.#session = engineProgram.createSession({
            memoryLimit: options.memoryLimit ?? 0, seed: options.seed ?? 0, threads: options.threads,
            flags: (options.flushSubnormals ? 1 : 0) | (options.strictTypes ? 2 : 0), statesOf: options.statesOf?.#session,
            functions: functions.map(([name]) => name), call: (...parameters) => this.#call(...parameters),
            print: options.print ?? ((text) => console.log(text.replace(/\n$/, ''))),
        });
    }

    /** Not for callers. */
    static programOf(session) {
        return session instanceof Session && session.#session !== null ? session.program : null;
    }

    #alive() {
        if (this.#session === null)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is disposed');
        if (this.running)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is running; a session does one thing at a time');
        return this.#session;
    }

    #index(infos, name, what) {
        const index = infos.findIndex((info) => info.name === name);
        if (index < 0)
            throw new XcvmError('INVALID_ARGUMENT', `the program has no ${what} "${name}"; expected one of ${infos.map((info) => `"${info.name}"`).join(', ') || 'none'}`);
        return index;
    }

    /** Binds a value to an input. It stays bound for later runs. */
    setInput(name, value) {
        const session = this.#alive(), inputs = this.program.inputs, index = this.#index(inputs, name, 'input');
        session.setInput(index, plainValue(value, inputs[index], `input "${name}"`));
        this.#bindings[index]++;
    }

    /** Binds a tensor in the VM's memory to an input, and returns it. Its `data` is filled in place before each run, so
     * that no run copies the input. `dims` is needed if the declared shape is dynamic. */
    input(name, dims) {
        const session = this.#alive(), inputs = this.program.inputs, index = this.#index(inputs, name, 'input'), info = inputs[index];
        dims ??= info.dims?.every((dim) => typeof dim === 'number') ? info.dims : null;
        if (info.kind !== 'tensor' || info.dtype === null || info.dtype === 'str' || dims === null)
            throw new XcvmError('INVALID_ARGUMENT', `input "${name}": ${dims === null ? 'the declared shape is dynamic; give the dimensions' : 'only tensors of numbers are written in place'}`);
        checkDims(dims, `input "${name}"`);
        const binding = ++this.#bindings[index];
        return session.createInput(index, info.dtype, Array.from(dims), () => this.#session !== null && this.#bindings[index] === binding);
    }

    /** Runs the program and returns its outputs by name. Inputs that are not given keep their values. */
    run(inputs = {}, options = {}) {
        const session = this.#begin(inputs, options);
        try {
            session.run(this.#runOptions(options));
        } finally {
            this.running = false;
        }
        return this.#outputs(session, options.copy ?? true);
    }

    /** As `run`, beside this thread if the engine is native. The inputs are copied before it returns. */
    async runAsync(inputs = {}, options = {}) {
        const session = this.#begin(inputs, options);
        try {
            await session.runAsync(this.#runOptions(options));
        } finally {
            this.running = false;
        }
        return this.#outputs(session, options.copy ?? true);
    }

    /* Binds the inputs of a run. */
    #begin(inputs, options) {
        const session = this.#alive();
        if (inputs === null || typeof inputs !== 'object')
            throw new XcvmError('INVALID_ARGUMENT', `inputs are ${describe(inputs)}; expected an object { name: value }`);
        options.signal?.throwIfAborted();
        for (const name of Object.keys(inputs))
            this.setInput(name, inputs[name]);
        this.#run++;
        this.running = true;
        return session;
    }

    #runOptions({ fuel = 0, timeout = 0, cancel, signal, observe, observeBefore = false }) {
        return { fuel, timeout, cancel, signal, observe: observe && ((...event) => this.#observe(observe, ...event)), observeBefore };
    }

    /* A host function of the program. Returns plain values. */
    #call(number, inputs, outputCount) {
        let results = this.#functions[number](...inputs);
        results = Array.isArray(results) && outputCount !== 1 ? results : [results];
        if (results.length !== outputCount)
            throw new XcvmError('INVALID_ARGUMENT', `a host function returned ${results.length} values; expected ${outputCount}`);
        return results.map((result, i) => plainValue(result, { kind: 'tensor', dims: null }, `result ${i} of a host function`));
    }

    /* An instruction of an observed run. Returns a status: 10, CANCELLED, ends the run. */
    #observe(observe, phase, [pc, start, end, flops, bytesRead, bytesWritten, liveBytes, threads], text, inputRegisters, outputRegisters, read) {
        const values = (registers, output) => registers.map((register, i) => ({
            register, name: output ? text(3 + i) : '', get value() { return read(output, i); },
        }));
        const stop = observe({
            phase: phase === 0 ? 'before' : 'after', pc, instruction: text(0), node: text(1), attributes: text(2), start,
            milliseconds: phase === 0 ? 0 : end - start, flops, bytesRead, bytesWritten, liveBytes, threads,
            get inputs() { return values(inputRegisters, 0); },
            get outputs() { return values(outputRegisters, 1); },
        });
        return stop === false ? 10 : 0;
    }

    #outputs(session, copy) {
        const results = {}, run = this.#run;
        this.program.outputs.forEach((info, i) => {
            results[info.name] = session.output(i, copy, () => this.#session !== null && this.#run === run);
        });
        return results;
    }

    /** Runs the program and returns its outputs, and the time, flops and bytes of every instruction. */
    profile(inputs = {}, options = {}) {
        const instructions = [];
        const outputs = this.run(inputs, {
            ...options,
            observe: ({ pc, instruction, node, start, milliseconds, flops, bytesRead, bytesWritten, liveBytes, threads }) =>
                void instructions.push({ pc, instruction, node, start, milliseconds, flops, bytesRead, bytesWritten, liveBytes, threads }),
        });
        return { outputs, instructions };
    }

    /** Makes the first run about as fast as later ones. */
    warmUp() {
        this.#alive().warmUp();
        this.#run++;
    }

    /** Returns a copy of a state. */
    getState(name) {
        const session = this.#alive();
        return session.getState(this.#index(this.program.states, name, 'state'));
    }

    setState(name, value) {
        const session = this.#alive(), states = this.program.states, index = this.#index(states, name, 'state');
        session.setState(index, plainValue(value, states[index], `state "${name}"`));
    }

    /** Restores the initial value of every state. */
    resetStates() { this.#alive().resetStates(); }

    /** Returns all states as a safetensors file. */
    saveStates() { return this.#alive().saveStates(); }

    loadStates(bytes) {
        const session = this.#alive();
        if (!(bytes instanceof Uint8Array))
            throw new XcvmError('INVALID_ARGUMENT', `the states are ${describe(bytes)}; expected a Uint8Array`);
        session.loadStates(bytes);
    }

    /** Bytes that the session holds. */
    get memory() { return this.#alive().memory; }

    dispose() {
        if (this.#session === null)
            return;
        if (this.running)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is running; dispose it after the run');
        this.#session.destroy();
        this.#session = null;
        this.#forget();
    }
}

if (typeof Symbol.dispose === 'symbol')
    for (const Class of [Program, Session])
        Class.prototype[Symbol.dispose] = Class.prototype.dispose;
