/* What the engine of WebAssembly has beyond the instructions that every module needs. */

/* A function with f32x4.relaxed_madd. */
const relaxedFunction = new Uint8Array([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0, 65, 0, 253, 15, 65, 0, 253, 15, 65, 0, 253, 15, 253, 133, 2, 11,
]);
let relaxed;

/** Whether there is relaxed SIMD, whose products and sums are one instruction where the processor has that. */
export const hasRelaxedSimd = () => relaxed ??= WebAssembly.validate(relaxedFunction);
