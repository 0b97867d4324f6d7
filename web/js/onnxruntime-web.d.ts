/** Types of `xcvm/onnxruntime-web`, the drop-in module for onnxruntime-web. */

export type DataType = 'float32' | 'uint8' | 'int8' | 'uint16' | 'int16' | 'int32' | 'int64' | 'string' | 'bool' | 'float16' |
    'float64' | 'uint32' | 'uint64' | 'uint4' | 'int4';
export type Dims = readonly number[];

export class Tensor {
    constructor(type: DataType, data: any, dims?: Dims);
    constructor(data: any, dims?: Dims);
    readonly type: DataType;
    readonly dims: Dims;
    readonly size: number;
    readonly data: any;
    readonly location: 'cpu' | 'none';
    getData(): Promise<any>;
    dispose(): void;
    reshape(dims: Dims): Tensor;
    static fromImage(image: any, options?: any): Promise<Tensor>;
    toImageData(options?: any): ImageData;
    toDataURL(options?: any): string;
}

export type OnnxValue = Tensor | OnnxValue[] | null;

export class InferenceSession {
    private constructor();
    static create(model: string | URL | ArrayBufferLike | Uint8Array, options?: any): Promise<InferenceSession>;
    static create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: any): Promise<InferenceSession>;
    readonly inputNames: readonly string[];
    readonly outputNames: readonly string[];
    readonly inputMetadata: readonly any[];
    readonly outputMetadata: readonly any[];
    run(feeds: Record<string, Tensor>, options?: any): Promise<Record<string, any>>;
    run(feeds: Record<string, Tensor>, fetches: readonly string[] | Record<string, any>, options?: any): Promise<Record<string, any>>;
    release(): Promise<void>;
    startProfiling(): void;
    endProfiling(): void;
}

export const env: any;
export function registerBackend(name: string, backend: any, priority: number): void;
export function listSupportedBackends(): { name: string; bundled: boolean }[];
declare const _default: { InferenceSession: typeof InferenceSession; Tensor: typeof Tensor; env: any };
export default _default;
