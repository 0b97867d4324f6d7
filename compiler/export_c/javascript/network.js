
/** Inputs, outputs and states: name, dtype and dims, in the order of the model. */
export const inputs = describeAll(VALUES.inputs), outputs = describeAll(VALUES.outputs), states = describeAll(VALUES.states);

function describeAll(values) {
    return Object.freeze(values.map(([name, dtype, dims]) => Object.freeze({ name, dtype, dims: Object.freeze(dims) })));
}

/* Compiled once for the default address. */
let compiled = null;

/** Loads the network. `source` is the address, the bytes, a Response or a WebAssembly.Module of the .wasm file, which by
 * default is beside this module. Each network has a memory of its own. */
export async function load(source) {
    if (source === undefined) {
        compiled ??= compileModule(ADDRESS).catch((error) => {
            /* A failure may pass, as of a network connection. */
            compiled = null;
            throw error;
        });
    }
    return new Network(await (source === undefined ? compiled : compileModule(source)));
}

/* Copies a typed array, an array of numbers, a number, or an object with data and dims into a view. */
function fill(view, given, [, dtype, dims], where) {
    const isTensor = typeof given === 'object' && given !== null && 'data' in given;
    if (isTensor && given.dtype !== undefined && given.dtype !== dtype)
        throw new XcvmError('TYPE_MISMATCH', `${where}: a tensor of ${given.dtype} is given; expected ${dtype}`);
    if (isTensor && given.dims !== undefined && String(Array.from(given.dims)) !== String(dims))
        throw new XcvmError('SHAPE_MISMATCH', `${where}: a tensor of shape [${Array.from(given.dims)}] is given; expected shape [${dims}]`);
    let data = isTensor ? given.data : given;
    if (typeof data === 'number' || typeof data === 'bigint' || typeof data === 'boolean')
        data = [data];
    const sameBytes = view instanceof Uint8Array && data instanceof Uint8ClampedArray;
    if (!Array.isArray(data) && !(data instanceof view.constructor) && !sameBytes)
        throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(data)} is given; expected ${view.constructor.name} (${dtype}), an array or a tensor`);
    if (data.length !== view.length)
        throw new XcvmError('SHAPE_MISMATCH', `${where}: ${data.length} elements are given; expected ${view.length} of shape [${dims}]`);
    try {
        view.set(Array.isArray(data) && (view instanceof BigInt64Array || view instanceof BigUint64Array) ? data.map(BigInt) : data);
    } catch (cause) {
        throw new XcvmError('TYPE_MISMATCH', `${where}: an element cannot be converted to ${dtype}: ${cause.message}`, { cause });
    }
}

/** The network with its memory. `load` makes it. */
export class Network {
    #exports;
    #index = new Map();
    #broken = null;

    constructor(module) {
        try {
            this.#exports = new WebAssembly.Instance(module, {}).exports;
        } catch (cause) {
            if (cause instanceof RangeError)
                throw new XcvmError('OUT_OF_MEMORY', `no memory for the network: ${cause.message}`, { cause });
            throw new XcvmError('INVALID_ARGUMENT', `the WebAssembly module is not that of this network: ${cause.message}`, { cause });
        }
        if (this.#exports.xcvm_network?.() !== VALUES.identity)
            throw new XcvmError('INVALID_ARGUMENT', 'the WebAssembly module is not that of this network; the .wasm and .mjs files must be of one export');
        ['inputs', 'outputs', 'states'].forEach((kind, k) => VALUES[kind].forEach((value, i) => {
            this.#index.set(`${kind} ${value[0]}`, [value, this.#exports.xcvm_value(k, i) >>> 0]);
        }));
        this.resetStates();
    }

    #call(name, ...parameters) {
        if (this.#broken)
            throw new XcvmError('INTERNAL', `the network cannot be used: ${this.#broken}. Load it again.`);
        try {
            return this.#exports[name](...parameters);
        } catch (cause) {
            if (cause instanceof WebAssembly.RuntimeError)
                this.#broken = cause.message;
            throw new XcvmError(this.#broken ? 'INTERNAL' : 'INVALID_ARGUMENT', `the network has failed: ${cause.message}`, { cause });
        }
    }

    /* A view of the memory of a value. */
    #view(kind, name) {
        if (this.#broken)
            throw new XcvmError('INTERNAL', `the network cannot be used: ${this.#broken}. Load it again.`);
        const found = this.#index.get(`${kind} ${name}`);
        if (!found) {
            const names = VALUES[kind].map(([known]) => `"${known}"`).join(', ');
            throw new XcvmError('INVALID_ARGUMENT', `the network has no ${kind.slice(0, -1)} "${name}"; it has ${names || 'none'}`);
        }
        const [value, at] = found, [, , , Type, bytes] = value;
        return [new Type(this.#exports.memory.buffer, at, bytes / Type.BYTES_PER_ELEMENT), value];
    }

    #tensor(kind, name, copy) {
        const [view, [, dtype, dims]] = this.#view(kind, name);
        return { dtype, dims: [...dims], data: copy ? view.slice() : view };
    }

    /** The tensor of an input in the network's memory: what is written to its data is the input of later runs. */
    input(name) { return this.#tensor('inputs', name, false); }

    /** Runs the network. Inputs that are not given keep their values. Results are copies, or with { copy: false } views that
     * are valid until the next run. */
    run(given = {}, options = {}) {
        for (const [name, value] of Object.entries(given)) {
            const [view, input] = this.#view('inputs', name);
            fill(view, value, input, `input "${name}"`);
        }
        if (VALUES.steps > 0)
            this.#call('xcvm_max_steps', BigInt(options.maxSteps ?? 0));
        const status = this.#call('xcvm_run');
        if (status !== 0)
            throw new XcvmError(status === VALUES.steps ? 'OUT_OF_TIME' : 'OUT_OF_RANGE', this.#text(this.#call('xcvm_error', status) >>> 0));
        return Object.fromEntries(VALUES.outputs.map(([name]) => [name, this.#tensor('outputs', name, options.copy !== false)]));
    }

    #text(at) {
        const bytes = new Uint8Array(this.#exports.memory.buffer, at);
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    }

    /** A copy of a state. */
    getState(name) { return this.#tensor('states', name, true); }

    setState(name, value) {
        const [view, state] = this.#view('states', name);
        fill(view, value, state, `state "${name}"`);
    }

    /** Sets all states to the values of the model. */
    resetStates() { this.#call('xcvm_init'); }

    /** Sets the state of the random generator. Without it, random numbers begin with those of seed 0. */
    setSeed(seed) {
        if (VALUES.random)
            this.#call('xcvm_seed', BigInt.asIntN(64, BigInt(seed)));
    }

    get memoryBytes() { return this.#exports?.memory.buffer.byteLength ?? 0; }

    /** Gives the memory back. */
    dispose() {
        this.#broken ??= 'it is disposed';
        this.#exports = null;
    }
}
