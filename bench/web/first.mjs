/* first.mjs ENGINE XCVM ORT MODEL FILE: prints the milliseconds to the first result, and the peak of resident memory of the
 * process in MB, as JSON. A process of its own for each engine and model. ENGINE none: an empty process. */
import { readFileSync } from 'node:fs';
import { start } from './engine.mjs';

const [engine, xcvm, ort, model, file] = process.argv.slice(2), bytes = new Uint8Array(readFileSync(file));
const { first, run } = engine === 'none' ? { first: 0, run: () => {} } : await start(engine, { xcvm, ort }, model, bytes);
for (let i = 0; i < 3; i++)
    await run();
/* The maxRSS of resourceUsage includes that of the parent, from before exec. */
const peak = /VmHWM:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'));
console.log(JSON.stringify({ first, memory: peak ? Number(peak[1]) / 1024 : 0 }));
process.exit();
