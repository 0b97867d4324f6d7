/* Shared by the tests of the npm package: the package, programs and the tree's test data. */
import { readdirSync, readFileSync, existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import path from 'node:path';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const packageDir = process.env.XCVM_WEB_PACKAGE ?? path.join(root, 'build/web/package');
/* The command, which exports networks. */
export const command = process.env.XCVM_COMMAND ?? path.join(root, 'build/release/tools/xcvm');
/* Models and hostile files beside the tree. */
export const shared = process.env.XCVM_SHARED ?? path.join(root, '../shared');
/* The engine that is tested in Node: 'wasm' or 'native'. */
export const engine = process.env.XCVM_ENGINE ||= 'wasm';
export const load = (file) => import(pathToFileURL(path.join(packageDir, 'js', file)));
export const read = (...parts) => new Uint8Array(readFileSync(path.resolve(root, ...parts)));
export const files = (dir, ext) => existsSync(path.resolve(root, dir))
    ? readdirSync(path.resolve(root, dir)).filter((name) => name.endsWith(ext)).sort().map((name) => path.resolve(root, dir, name)) : [];

export const linear = `xcvm 1
input x f32[Nx2]
output y f32[Nx3]
constant w f32[2x3] = 1 2 3 4 5 6
$1 = In(name="x")
$2 = MatMul($1, @w)
$3 = Add($2, f32[] 0.5)
Out($3, name="y")
`;
/* Adds its input to a state. */
export const counter = `xcvm 1
input x i64[2]
output sum i64[2]
state total i64[2]
$1 = In(name="x")
$2 = Load(name="total")
$3 = Add($1, $2)
Store($3, name="total")
Out($3, name="sum")
`;
/* Never ends. */
export const endless = `xcvm 1
output y i64[]
again:
$1 = Identity(i64[] 0)
Free($1)
Jmp(to=again)
`;
export const types = ['f32', 'u8', 'i8', 'u16', 'i16', 'i32', 'i64', 'f16', 'f64', 'u32', 'u64', 'bf16', 'c64', 'c128', 'i4', 'u4',
    'f8e4m3fn', 'str', 'bool'];
export const identity = (dtype) => `xcvm 1
input x ${dtype}[Nx2]
output y ${dtype}[Nx2]
$1 = In(name="x")
$2 = Identity($1)
Out($2, name="y")
`;
