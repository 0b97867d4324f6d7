/* The playground: loads a model or program and runs it on numbers, images, drawings and the camera. */
import { Program } from '../js/index.js';
import { $, attempt, breathe, fillRow, say } from './page.js';
import { bindInputs, chooseSource, closeCamera, limits, setUpInputs, shapeText } from './inputs.js';
import { showOutputs } from './results.js';
import { forget, record, setUpSteps } from './steps.js';

const EXAMPLE = `xcvm 1
input x f32[Nx4]
output y f32[Nx3]
constant w f32[4x3] = 1 0 2 0 1 -1 1 1 0 -1 2 1
$1 = In(name="x")
$2 = MatMul($1, @w)
$3 = Relu($2)
$4 = Softmax($3, axis=-1)
Out($4, name="y")
`;

let program = null, session = null, filming = false;

async function loadBytes(bytes, name) {
    filming = false;
    program?.dispose();
    program = session = null;
    $('loaded').hidden = true;
    forget();
    say(`Loading ${name} ...`);
    await breathe();
    const begin = performance.now();
    if (new TextDecoder().decode(bytes.subarray(0, 6)) === 'xcvm 1')
        program = await Program.assemble(new TextDecoder().decode(bytes));
    else
        program = await Program.load(bytes).catch(async (error) => {
            if (error.status !== 'INVALID_PROGRAM')
                throw error;
            say(`Compiling ${name} ...`);
            await breathe();
            return Program.compile(bytes);
        });
    session = program.createSession();
    const { info } = program;
    $('info').textContent = `${info.instructions} instructions, ${info.constants} constants of ${(info.constantBytes / 1024).toFixed(0)} KB, ${info.producer}`;
    $('values').replaceChildren();
    for (const [what, infos] of [['input', program.inputs], ['output', program.outputs], ['state', program.states]])
        for (const { name: value, kind, dtype, dims } of infos)
            fillRow($('values'), [what, value, kind === 'tensor' ? dtype ?? 'any' : kind, kind === 'tensor' ? shapeText(dims) : '']);
    $('size-label').hidden = program.inputs.every(({ dims }) => dims?.every((dim) => typeof dim === 'number'));
    $('results').replaceChildren();
    $('loaded').hidden = false;
    say(`${name} is loaded (${(performance.now() - begin).toFixed(0)} ms).`);
}

async function run() {
    if ($('source').value === 'camera')
        return film();
    await bindInputs(session);
    /* The first run also plans memory. */
    session.run({}, limits());
    const begin = performance.now(), outputs = session.run({}, limits()), milliseconds = performance.now() - begin;
    showOutputs(program, outputs);
    record(session);
    return say(`A run takes ${milliseconds.toFixed(2)} ms.`);
}

/* Shows the results of a drawing while it grows. */
async function runDrawing() {
    if (session === null || filming)
        return;
    await bindInputs(session);
    showOutputs(program, session.run({}, limits()));
}

/* Runs the program on one frame of the camera after the other. */
async function film() {
    const mine = session;
    let frames = 0, milliseconds = 0, shown = performance.now();
    filming = true;
    $('run').hidden = true;
    $('stop').hidden = false;
    try {
        while (filming && mine === session) {
            await bindInputs(mine);
            const begin = performance.now(), outputs = mine.run({}, limits());
            milliseconds += performance.now() - begin;
            frames++;
            showOutputs(program, outputs);
            if (performance.now() - shown > 500) {
                say(`${(1000 * frames / (performance.now() - shown)).toFixed(0)} frames a second, ${(milliseconds / frames).toFixed(2)} ms a run.`);
                frames = milliseconds = 0;
                shown = performance.now();
            }
            await new Promise(requestAnimationFrame);
        }
        if (mine === session)
            record(mine);
    } finally {
        filming = false;
        closeCamera();
        $('run').hidden = false;
        $('stop').hidden = true;
    }
}

async function loadDigits() {
    const response = await fetch(new URL('digits/model.onnx', import.meta.url));
    if (!response.ok)
        throw new Error(`digits/model.onnx: the server answers ${response.status}`);
    await loadBytes(new Uint8Array(await response.arrayBuffer()), 'the digit classifier');
    $('source').value = 'drawing';
    chooseSource();
    say(`${$('status').textContent} Draw a digit; Run also shows the instructions.`);
}

const loadFile = (file) => attempt(async () => loadBytes(new Uint8Array(await file.arrayBuffer()), file.name));
$('file').onchange = () => $('file').files[0] && loadFile($('file').files[0]);
$('example').onclick = () => attempt(() => loadBytes(new TextEncoder().encode(EXAMPLE), 'the example'));
$('digits').onclick = () => attempt(loadDigits);
$('run').onclick = () => attempt(run);
$('stop').onclick = () => { filming = false; };
$('drop').ondragover = (event) => { event.preventDefault(); $('drop').classList.add('over'); };
$('drop').ondragleave = () => $('drop').classList.remove('over');
$('drop').ondrop = (event) => {
    event.preventDefault();
    $('drop').classList.remove('over');
    if (event.dataTransfer.files[0])
        loadFile(event.dataTransfer.files[0]);
};
setUpInputs({
    changed(problem) {
        filming = false;
        if (problem)
            say(problem, true);
    },
    drawn: () => attempt(runDrawing),
});
setUpSteps();
/* The code of the training is loaded when it is wanted. */
$('train').onclick = () => attempt(async () => {
    (await import('./train.js')).setUpTraining();
    $('train').click();
});
