/** A URL, a path (Node), or bytes. */
export type Source = string | URL | Response | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;
export interface Tensor<Dtype extends string, Data> {
    readonly dtype: Dtype;
    readonly dims: readonly number[];
    readonly data: Data;
}
type Numbers<Data> = readonly (Data extends BigInt64Array | BigUint64Array ? number | bigint : number | boolean)[];
type Given<T> = T extends Tensor<infer Dtype, infer Data>
    ? Data | Numbers<Data> | number | bigint | boolean | { dtype?: Dtype; dims?: readonly number[]; data: Data | Numbers<Data> } : never;
export interface ValueInfo {
    readonly name: string;
    readonly dtype: string;
    readonly dims: readonly number[];
}
export const inputs: readonly ValueInfo[];
export const outputs: readonly ValueInfo[];
export const states: readonly ValueInfo[];

export class XcvmError extends Error {
    readonly status: 'INVALID_ARGUMENT' | 'UNSUPPORTED' | 'SHAPE_MISMATCH' | 'TYPE_MISMATCH' | 'OUT_OF_RANGE' | 'OUT_OF_MEMORY' |
        'OUT_OF_TIME' | 'IO' | 'INTERNAL';
}

export interface RunOptions {
    /** False: results are views of the network's memory, valid until the next run. */
    copy?: boolean;
    /** Most instructions that a run may take in loops; 0: no limit. */
    maxSteps?: number | bigint;
}

/** The network with its memory. */
export class Network {
    private constructor();
    /** A tensor in the network's memory. What is written to its data is the input of later runs. */
    input<Name extends keyof Inputs>(name: Name): Inputs[Name];
    /** Runs the network. Inputs that are not given keep their values. */
    run(given?: { [Name in keyof Inputs]?: Given<Inputs[Name]> }, options?: RunOptions): Outputs;
    getState<Name extends keyof States>(name: Name): States[Name];
    setState<Name extends keyof States>(name: Name, value: Given<States[Name]>): void;
    resetStates(): void;
    /** The state of the random generator. */
    setSeed(seed: number | bigint): void;
    readonly memoryBytes: number;
    dispose(): void;
}

/** Loads the network. Without a source, the .wasm file is beside this module. */
export function load(source?: Source | WebAssembly.Module): Promise<Network>;
