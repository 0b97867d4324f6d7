/* Recognition of file formats by content: models of other systems, Git LFS pointers, web pages, archives. */
#include "proto/recognize.h"
#include "proto/wire_reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The bytes of a file, or a prefix. */
typedef struct contents {
    const unsigned char *bytes;
    size_t count;
} contents;

static bool has(const contents *c, size_t at, const char *mark, size_t length)
{
    return c->count >= length && at <= c->count - length && memcmp(c->bytes + at, mark, length) == 0;
}

/* Returns true if a name occurs in the first or last 64 KiB, where archives have their directories. */
static bool mentions(const contents *c, const char *name)
{
    enum { PORTION = 1 << 16 };
    const size_t length = strlen(name), portion = c->count < PORTION ? c->count : PORTION;
    return memmem(c->bytes, portion, name, length) != NULL ||
           memmem(c->bytes + c->count - portion, portion, name, length) != NULL;
}

/* ---- Formats ---- */

/* A format, and advice for users who passed it as a model (or program) or as data. */
typedef struct format {
    xcvm_file_kind kind;
    const char *what, *for_model, *for_data;
} format;

#define EXPORT "export the model as ONNX"
#define TORCH_EXPORT EXPORT ": torch.onnx.export(model, example_inputs, \"model.onnx\")"
#define TF2ONNX "convert it to ONNX: python3 -m tf2onnx.convert "
#define SAVE_ARRAYS "save the arrays with numpy.savez or safetensors"
#define SAVE_TENSORS                                                                                                   \
    "save weights with safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\"), and a tensor with "   \
    "numpy.save(\"x.npy\", tensor.numpy())"
#define UNPACK(command) "unpack it with \"" command "\" first"
#define NO_MODEL "an ONNX model is needed"
#define NO_DATA "data are .npy, .npz or .safetensors files, or images"

static const format program_format = {XCVM_FILE_PROGRAM, "an XCVM program, which is compiled already",
                                      "run it with \"xcvm run\" or xcvm_program_load_file, or name the ONNX model",
                                      NO_DATA};
static const format assembly_format = {XCVM_FILE_ASSEMBLY, "the text of an XCVM program",
                                       "\"xcvm asm\" or xcvm_assemble makes a program of it", NO_DATA};
static const format model_format = {XCVM_FILE_MODEL, "an ONNX model",
                                    "compile it to a program with \"xcvm compile\" or xcc_compile_file", NO_DATA};
static const format empty_format = {XCVM_FILE_OTHER, "empty", "write or download the file again",
                                    "write or download the file again"};

#define SAME(text) text, text

/* Formats recognized by bytes at a fixed position. */
static const struct {
    size_t at, length;
    const char *mark;
    format format;
} marks[] = {
    {0, 6, "\x93NUMPY", {XCVM_FILE_ARRAYS, "a NumPy array", NO_MODEL, ""}},
    {0, 8, "\x89PNG\r\n\x1a\n", {XCVM_FILE_IMAGE, "a PNG image", NO_MODEL, NO_DATA}},
    {0, 3, "\xff\xd8\xff", {XCVM_FILE_IMAGE, "a JPEG image", NO_MODEL, NO_DATA}},
    {8, 4, "WEBP", {XCVM_FILE_IMAGE, "a WebP image", NO_MODEL, NO_DATA}},
    {0, 4, "II*\0", {XCVM_FILE_IMAGE, "a TIFF image", NO_MODEL, NO_DATA}},
    {0, 4, "MM\0*", {XCVM_FILE_IMAGE, "a TIFF image", NO_MODEL, NO_DATA}},
    {4, 4, "jP  ", {XCVM_FILE_IMAGE, "a JPEG 2000 image", NO_MODEL, NO_DATA}},
    {0, 4, "\xff\x4f\xff\x51", {XCVM_FILE_IMAGE, "a JPEG 2000 image", NO_MODEL, NO_DATA}},
    {0, 4, "GIF8", {XCVM_FILE_OTHER, "a GIF image", NO_MODEL, "convert it to PNG or JPEG"}},
    {4, 8, "ftypheic", {XCVM_FILE_OTHER, "a HEIC image", NO_MODEL, "convert it to JPEG or PNG"}},
    {4, 8, "ftypheix", {XCVM_FILE_OTHER, "a HEIC image", NO_MODEL, "convert it to JPEG or PNG"}},
    {4, 8, "ftypmif1", {XCVM_FILE_OTHER, "a HEIF image", NO_MODEL, "convert it to JPEG or PNG"}},
    {4, 8, "ftypavif", {XCVM_FILE_OTHER, "an AVIF image", NO_MODEL, "convert it to PNG or JPEG"}},
    {4, 4, "TFL3", {XCVM_FILE_OTHER, "a TensorFlow Lite model", TF2ONNX "--tflite FILE --output model.onnx", NO_DATA}},
    {4,
     4,
     "ORTM",
     {XCVM_FILE_OTHER, "a model in ONNX Runtime's own format (.ort)", "name the ONNX model that it was made from",
      NO_DATA}},
    {4, 4, "ET12", {XCVM_FILE_OTHER, "an ExecuTorch program", TORCH_EXPORT, NO_DATA}},
    {0,
     4,
     "GGUF",
     {XCVM_FILE_OTHER, "a GGUF file, weights for llama.cpp",
      EXPORT " from the original: optimum-cli export onnx --model NAME FOLDER", SAVE_ARRAYS}},
    {0,
     8,
     "\x89HDF\r\n\x1a\n",
     {XCVM_FILE_OTHER, "an HDF5 file, as Keras writes it",
      "load it in Keras and " EXPORT ": model.export(\"model.onnx\", format=\"onnx\")", SAVE_ARRAYS}},
    {0,
     15,
     "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.",
     {XCVM_FILE_OTHER, "a PyTorch file of the older kind (a pickle)", TORCH_EXPORT, SAVE_TENSORS}},
    {0, 2, "\x80\x02", {XCVM_FILE_OTHER, "a Python pickle", TORCH_EXPORT, SAVE_ARRAYS}},
    {0, 2, "\x80\x03", {XCVM_FILE_OTHER, "a Python pickle", TORCH_EXPORT, SAVE_ARRAYS}},
    {0, 2, "\x80\x04", {XCVM_FILE_OTHER, "a Python pickle", TORCH_EXPORT, SAVE_ARRAYS}},
    {0, 2, "\x80\x05", {XCVM_FILE_OTHER, "a Python pickle", TORCH_EXPORT, SAVE_ARRAYS}},
    {0,
     2,
     "\x1f\x8b",
     {XCVM_FILE_OTHER, "compressed with gzip", SAME("unpack it with \"gunzip\" (an archive with \"tar xzf\") first")}},
    {0, 4, "\x28\xb5\x2f\xfd", {XCVM_FILE_OTHER, "compressed with Zstandard", SAME(UNPACK("unzstd"))}},
    {0,
     6,
     "\xfd"
     "7zXZ\0",
     {XCVM_FILE_OTHER, "compressed with xz", SAME(UNPACK("unxz"))}},
    {0, 3, "BZh", {XCVM_FILE_OTHER, "compressed with bzip2", SAME(UNPACK("bunzip2"))}},
    {0, 4, "\x04\x22\x4d\x18", {XCVM_FILE_OTHER, "compressed with LZ4", SAME(UNPACK("unlz4"))}},
    {0, 6, "7z\xbc\xaf\x27\x1c", {XCVM_FILE_OTHER, "a 7z archive", SAME(UNPACK("7z x"))}},
    {0, 4, "Rar!", {XCVM_FILE_OTHER, "a RAR archive", SAME(UNPACK("unrar x"))}},
    {257, 5, "ustar", {XCVM_FILE_OTHER, "a tar archive", SAME(UNPACK("tar xf"))}},
    {0,
     39,
     "version https://git-lfs.github.com/spec",
     {XCVM_FILE_OTHER, "a Git LFS pointer, not the file itself", SAME("run \"git lfs pull\" in the repository")}},
    {0,
     23,
     "version https://hawser.",
     {XCVM_FILE_OTHER, "a Git LFS pointer, not the file itself", SAME("run \"git lfs pull\" in the repository")}},
    {0,
     15,
     "# xet version 0",
     {XCVM_FILE_OTHER, "a Git Xet pointer, not the file itself",
      SAME("run \"git xet checkout\" or download the file")}},
    {0,
     14,
     "/annex/objects",
     {XCVM_FILE_OTHER, "a git-annex pointer, not the file itself", SAME("run \"git annex get\"")}},
    {0, 5, "%PDF-", {XCVM_FILE_OTHER, "a PDF document", NO_MODEL, NO_DATA}},
    {0,
     4,
     "\x7f"
     "ELF",
     {XCVM_FILE_OTHER, "an executable or a library (ELF)", NO_MODEL, NO_DATA}},
    {0, 2, "MZ", {XCVM_FILE_OTHER, "an executable of Windows", NO_MODEL, NO_DATA}},
    {8, 4, "WAVE", {XCVM_FILE_OTHER, "a WAVE sound", NO_MODEL, SAVE_ARRAYS}},
    {0, 4, "OggS", {XCVM_FILE_OTHER, "an Ogg file", NO_MODEL, SAVE_ARRAYS}},
    {0, 4, "fLaC", {XCVM_FILE_OTHER, "a FLAC sound", NO_MODEL, SAVE_ARRAYS}},
    {0, 4, "PAR1", {XCVM_FILE_OTHER, "a Parquet file", NO_MODEL, SAVE_ARRAYS}},
    {0, 6, "ARROW1", {XCVM_FILE_OTHER, "an Arrow file", NO_MODEL, SAVE_ARRAYS}},
    {0,
     7,
     "7767517",
     {XCVM_FILE_OTHER, "the parameters of an ncnn model", "name the ONNX model that it was made from", NO_DATA}},
    {0, 15, "SQLite format 3", {XCVM_FILE_OTHER, "an SQLite database", NO_MODEL, SAVE_ARRAYS}},
};

/* ZIP archives by member names, more specific ones first. */
static const struct {
    const char *member;
    format format;
} archives[] = {
    {"model.weights.h5",
     {XCVM_FILE_OTHER, "a Keras model (.keras)",
      "load it in Keras and " EXPORT ": model.export(\"model.onnx\", format=\"onnx\")", SAVE_ARRAYS}},
    {"serialized_exported_program", {XCVM_FILE_OTHER, "a program of torch.export (.pt2)", TORCH_EXPORT, SAVE_ARRAYS}},
    {"exported_program.json", {XCVM_FILE_OTHER, "a program of torch.export (.pt2)", TORCH_EXPORT, SAVE_ARRAYS}},
    {"/code/", {XCVM_FILE_OTHER, "a TorchScript model", "load it with torch.jit.load and " TORCH_EXPORT, SAVE_ARRAYS}},
    {"constants.pkl",
     {XCVM_FILE_OTHER, "a TorchScript model", "load it with torch.jit.load and " TORCH_EXPORT, SAVE_ARRAYS}},
    {"data.pkl", {XCVM_FILE_OTHER, "a PyTorch file (.pt or .pth: a model or its weights)", TORCH_EXPORT, SAVE_TENSORS}},
    {".mlpackage", {XCVM_FILE_OTHER, "a Core ML model", "name the ONNX model that it was made from", NO_DATA}},
    {".npy", {XCVM_FILE_ARRAYS, "a NumPy archive (.npz)", NO_MODEL, ""}},
    {"", {XCVM_FILE_OTHER, "a ZIP archive", SAME(UNPACK("unzip"))}},
};

static const format *find_archive(const contents *c)
{
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++)
        if (mentions(c, archives[i].member))
            return &archives[i].format;
    return NULL;
}

/* ---- Protobuf messages ---- */

/* Properties of the first fields of a message. */
typedef struct outline {
    bool program, model;              /* has fields that exist only in one of the two */
    bool graph, opsets;               /* ModelProto.graph and opset_import */
    bool core_ml;                     /* one of the model kinds of Core ML */
    bool versioned, nested, only_two; /* field 1 is a number; field 2 starts a message; no other fields */
    bool nodes;                       /* the message is a TensorFlow node */
    size_t fields;
} outline;

static void add_field(outline *o, const xcvm_wire_field *field)
{
    enum { CORE_ML_FIRST = 200, CORE_ML_LAST = 3000, PROGRAM_FIELDS = 15 };
    const uint32_t number = field->number, type = field->type;
    const size_t inside = (size_t)(field->inside.end - field->inside.at);
    const bool bytes = type == XCVM_WIRE_BYTES, begins = bytes && inside > 1 && field->inside.at[0] == 0x0a;
    o->program =
        o->program || ((number == 5 || number == PROGRAM_FIELDS) && bytes) || (number == 9 && type == XCVM_WIRE_VARINT);
    o->model = o->model || (number == 5 && type == XCVM_WIRE_VARINT) || number == 20 || number == 25;
    o->graph = o->graph || (number == 7 && bytes);
    o->opsets = o->opsets || (number == 8 && bytes);
    o->core_ml = o->core_ml || (number >= CORE_ML_FIRST && number <= CORE_ML_LAST && bytes);
    o->versioned = o->versioned || (number == 1 && type == XCVM_WIRE_VARINT);
    o->nested = o->nested || (number == 2 && begins);
    o->only_two = o->only_two && (number == 1 || number == 2);
    if (o->fields++ == 0)
        o->nodes = number == 1 && begins && (size_t)field->inside.at[1] + 2 < inside &&
                   field->inside.at[field->inside.at[1] + 2] == 0x12;
}

/* Models and programs both start with a small number and a producer. Only a model has a numeric model version (5) or
 * fields 20 and 25. Only a program has messages in field 5, or field 15. */
static const format *find_message(const contents *c)
{
    enum { MOST_FIELDS = 4096, GRAPH_TAG = 7 << 3 | XCVM_WIRE_BYTES };
    static const format core_ml = {XCVM_FILE_OTHER, "a Core ML model", "name the ONNX model that it was made from",
                                   NO_DATA};
    static const format saved = {XCVM_FILE_OTHER, "the graph of a TensorFlow SavedModel",
                                 TF2ONNX "--saved-model FOLDER --output model.onnx", NO_DATA};
    static const format frozen = {XCVM_FILE_OTHER, "a graph of TensorFlow (GraphDef)",
                                  TF2ONNX "--graphdef FILE --inputs x:0 --outputs y:0 --output model.onnx", NO_DATA};
    outline o = {.only_two = true};
    xcvm_wire wire = xcvm_wire_of(c->bytes, c->count);
    xcvm_wire_field field;
    xcvm_wire_state state = XCVM_WIRE_READ;
    while (o.fields < MOST_FIELDS && !o.program && !o.model) {
        const xcvm_wire before = wire;
        state = xcvm_wire_next(&wire, &field);
        if (state != XCVM_WIRE_READ) {
            /* A model that is truncated inside its graph. In a program, other fields precede field 7. */
            o.model = state == XCVM_WIRE_CUT_OFF && o.versioned && before.at < before.end && *before.at == GRAPH_TAG;
            break;
        }
        add_field(&o, &field);
    }
    if (o.program)
        return &program_format;
    if (o.model || (o.graph && o.opsets))
        return &model_format;
    if (o.graph || (state != XCVM_WIRE_END && state != XCVM_WIRE_READ))
        return NULL;
    return o.versioned && o.core_ml                ? &core_ml
           : o.versioned && o.nested && o.only_two ? &saved
           : o.nodes                               ? &frozen
                                                   : NULL;
}

/* ---- Text formats ---- */

static bool is_text(const contents *c)
{
    enum { LOOK = 512 };
    for (size_t i = 0; i < c->count && i < LOOK; i++)
        if (c->bytes[i] >= 0xf8 || (c->bytes[i] < ' ' && strchr("\t\n\r\f", (char)c->bytes[i]) == NULL) ||
            c->bytes[i] == '\0' || c->bytes[i] == 0x7f)
            return false;
    return c->count > 0;
}

static bool begins_with(const contents *c, size_t at, const char *word)
{
    const size_t length = strlen(word);
    return at + length <= c->count && strncasecmp((const char *)c->bytes + at, word, length) == 0;
}

/* Returns true for one short line that starts with "./" or "../". */
static bool is_path(const contents *c)
{
    enum { LONGEST = 1024 };
    const bool begins = has(c, 0, "../", 3) || has(c, 0, "./", 2);
    return begins && c->count < LONGEST && memchr(c->bytes, ' ', c->count) == NULL &&
           (memchr(c->bytes, '\n', c->count) == NULL || c->bytes[c->count - 1] == '\n');
}

/* Returns true if the first two lines have the same separator equally often, as in CSV. */
static bool is_table(const contents *c)
{
    for (const char *separator = ",;\t"; *separator != '\0'; separator++) {
        size_t counts[2] = {0, 0}, line = 0;
        for (size_t i = 0; i < c->count && line < 2; i++) {
            counts[line] += c->bytes[i] == (unsigned char)*separator;
            line += c->bytes[i] == '\n' || (line == 1 && i + 1 == c->count);
        }
        if (line == 2 && counts[0] > 0 && counts[0] == counts[1])
            return true;
    }
    return false;
}

/* Comments and empty lines may precede the first statement of a program's text. */
static bool is_assembly(const contents *c)
{
    size_t at = 0;
    while (at < c->count && (c->bytes[at] == '#' || c->bytes[at] == '\n' || c->bytes[at] == ' ')) {
        if (c->bytes[at] == '#')
            while (at < c->count && c->bytes[at] != '\n')
                at++;
        else
            at++;
    }
    return has(c, at, "xcvm ", 5);
}

static const format *find_text(const contents *c)
{
    static const format html = {XCVM_FILE_OTHER, "an HTML page, perhaps that of a download or of an error",
                                SAME("download the file itself, by the link \"raw\" or \"download\"")};
    static const format open_vino = {XCVM_FILE_OTHER, "an OpenVINO model", "name the ONNX model that it was made from",
                                     NO_DATA};
    static const format xml = {XCVM_FILE_OTHER, "an XML text", NO_MODEL, NO_DATA};
    static const format json = {XCVM_FILE_OTHER, "a JSON text", NO_MODEL, NO_DATA};
    static const format link = {XCVM_FILE_OTHER, "a text with a path, as of a symbolic link that was copied as a file",
                                SAME("copy what it leads to, or make it a link again")};
    static const format table = {XCVM_FILE_OTHER, "a table in text, as in CSV", NO_MODEL,
                                 "read it with numpy.genfromtxt, and " SAVE_ARRAYS};
    static const format text = {XCVM_FILE_OTHER, "a text", NO_MODEL, NO_DATA};
    static const char *const tags[] = {"<!doctype html", "<html", "<head", "<body"};
    size_t at = has(c, 0, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (at < c->count && strchr(" \t\r\n", (char)c->bytes[at]) != NULL && c->bytes[at] != '\0')
        at++;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (begins_with(c, at, tags[i]))
            return &html;
    if (begins_with(c, at, "<?xml") || begins_with(c, at, "<net "))
        return mentions(c, "<net ") ? &open_vino : mentions(c, "<html") ? &html : &xml;
    if (!is_text(c))
        return NULL;
    if (is_path(c))
        return &link;
    return at < c->count && (c->bytes[at] == '{' || c->bytes[at] == '[') ? &json : is_table(c) ? &table : &text;
}

/* ---- Entry points ---- */

/* safetensors: a length and a JSON object. */
static bool is_safetensors(const contents *c)
{
    return c->count > 9 && c->bytes[8] == '{' && c->bytes[5] == 0 && c->bytes[6] == 0 && c->bytes[7] == 0;
}

static bool is_bitmap(const contents *c) { return has(c, 0, "BM", 2) && has(c, 6, "\0\0\0\0", 4) && c->count > 26; }

static bool is_portable_map(const contents *c)
{
    return c->count > 8 && c->bytes[0] == 'P' && (c->bytes[1] == '5' || c->bytes[1] == '6') &&
           strchr(" \t\r\n", (char)c->bytes[2]) != NULL && c->bytes[2] != '\0';
}

static const format *find_format(const contents *c)
{
    static const format safetensors = {XCVM_FILE_ARRAYS, "a safetensors file: weights without a network",
                                       TORCH_EXPORT ", or give them to \"xcvm train --weights\"", ""};
    static const format bitmap = {XCVM_FILE_IMAGE, "a BMP image", NO_MODEL, NO_DATA};
    static const format map = {XCVM_FILE_IMAGE, "a PGM or PPM image", NO_MODEL, NO_DATA};
    if (c->count == 0)
        return &empty_format;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has(c, marks[i].at, marks[i].mark, marks[i].length) && (marks[i].at != 8 || has(c, 0, "RIFF", 4)))
            return &marks[i].format;
    if (has(c, 0, "PK\3\4", 4) || has(c, 0, "PK\5\6", 4))
        return find_archive(c);
    if (is_safetensors(c))
        return &safetensors;
    if (is_bitmap(c))
        return &bitmap;
    if (is_portable_map(c))
        return &map;
    if (is_assembly(c))
        return &assembly_format;
    const format *message = find_message(c);
    return message != NULL ? message : find_text(c);
}

xcvm_file_kind xcvm_recognize(const void *bytes, size_t count, xcvm_file_kind wanted, char *text, size_t size)
{
    const contents c = {bytes, bytes != NULL ? count : 0};
    const format *found = find_format(&c);
    if (text != NULL && size > 0)
        text[0] = '\0';
    if (found == NULL)
        return XCVM_FILE_UNKNOWN;
    /* Any text may be intended as program assembly. */
    const bool meant = wanted == XCVM_FILE_ASSEMBLY && (count == 0 || strcmp(found->for_model, NO_MODEL) == 0);
    if (found->kind == wanted || meant || text == NULL || size == 0)
        return found->kind;
    const bool data = wanted == XCVM_FILE_ARRAYS || wanted == XCVM_FILE_IMAGE;
    const char *advice = data ? found->for_data : found->for_model;
    if (wanted == XCVM_FILE_IMAGE && strcmp(advice, "") == 0)
        advice = "an image is needed";
    (void)snprintf(text, size, "this is %s%s%s", found->what, advice[0] != '\0' ? "; " : "", advice);
    return found->kind;
}

xcvm_status xcvm_recognize_failure(xcvm_status status, const void *bytes, size_t count, xcvm_file_kind wanted,
                                   xcvm_error *error)
{
    char text[400];
    /* The format number of another kind of file may look like a program that is too new. */
    const bool newer = status == XCVM_UNSUPPORTED && wanted == XCVM_FILE_PROGRAM;
    if (status != XCVM_INVALID_MODEL && status != XCVM_INVALID_PROGRAM && status != XCVM_INVALID_ARGUMENT && !newer)
        return status;
    (void)xcvm_recognize(bytes, count, wanted, text, sizeof text);
    return text[0] != '\0' ? xcvm_error_set(error, newer ? XCVM_INVALID_PROGRAM : status, "%s", text) : status;
}

/* ---- Directories ---- */

static bool has_file(const char *folder, const char *name)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcasecmp(name + length - tail, suffix) == 0;
}

void xcvm_recognize_folder(const char *path, char *text, size_t size)
{
    char model[256] = "";
    if (has_file(path, "saved_model.pb")) {
        (void)snprintf(text, size,
                       "this is the folder of a TensorFlow SavedModel; " TF2ONNX
                       "--saved-model FOLDER --output model.onnx");
        return;
    }
    if (ends_with(path, ".mlpackage") || ends_with(path, ".mlmodelc")) {
        (void)snprintf(text, size, "this is a Core ML model; name the ONNX model that it was made from");
        return;
    }
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (ends_with(entry->d_name, ".onnx") && (model[0] == '\0' || strcmp(entry->d_name, "model.onnx") == 0))
            (void)snprintf(model, sizeof model, "%s", entry->d_name);
    if (dir != NULL)
        closedir(dir);
    if (model[0] != '\0')
        (void)snprintf(text, size, "this is a directory (expected a file). It has a model: %s", model);
    else
        (void)snprintf(text, size, "this is a directory (expected a file)");
}
