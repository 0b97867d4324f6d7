/* Signatures: what two calls must have in common to run as one. */
#include "ops/util/shape.h"
#include "tape/batch.h"

#include <string.h>

static bool put(tape_key *k, uint64_t word)
{
    if (k->count == TAPE_KEY_WORDS)
        return false;
    k->words[k->count++] = word;
    return true;
}

static bool put_bytes(tape_key *k, const void *from, size_t bytes)
{
    const size_t words = (bytes + 7) / 8;
    if (!put(k, bytes) || words > TAPE_KEY_WORDS - k->count)
        return false;
    if (words > 0) {
        k->words[k->count + words - 1] = 0;
        memcpy(&k->words[k->count], from, bytes);
    }
    k->count += words;
    return true;
}

static bool put_attribute(tape_key *k, const xcvm_field *f, const void *at)
{
    const xcvm_ints *ints = at;
    const xcvm_floats *floats = at;
    const xcvm_text *text = at;
    switch (f->kind) {
    case XCVM_FIELD_INT:
    case XCVM_FIELD_FLOAT:
        return put(k, *(const uint64_t *)at);
    case XCVM_FIELD_DTYPE:
    case XCVM_FIELD_CHOICE:
        return put(k, *(const uint32_t *)at);
    case XCVM_FIELD_INTS:
        return put_bytes(k, ints->at, ints->count * sizeof *ints->at);
    case XCVM_FIELD_FLOATS:
        return put_bytes(k, floats->at, floats->count * sizeof *floats->at);
    case XCVM_FIELD_TEXT:
        return put_bytes(k, text->at, text->length);
    default:
        return f->kind == XCVM_FIELD_NONE;
    }
}

/* Packed elements cannot be laid one behind the other, nor can none. */
static bool put_type(tape_key *k, const xcvm_value *type, bool requires)
{
    if (type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_STRING || type->bytes == 0 ||
        xcvm_dtype_bits((xcvm_dtype)type->dtype) % 8 != 0 ||
        !put(k, (uint64_t)type->dtype | (uint64_t)(uint8_t)type->rank << 8 | (uint64_t) requires << 16))
        return false;
    for (int i = 0; i < type->rank; i++)
        if (!put(k, (uint64_t)type->dims[i]))
            return false;
    return true;
}

/* Parameters, and matrices that are kept as those are. */
static bool is_weight(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && (v->requires || (v->kept && type->rank > 1 && type->dims[type->rank - 1] > 1 &&
                                                  type->dims[type->rank - 2] > 1));
}

static bool put_operand(tape_key *k, const tape_form *form, uint32_t index, const tape_variable *v)
{
    if (v == NULL)
        return put(k, 0);
    const xcvm_value *type = &v->value.type;
    if (is_weight(v))
        return put(k, (uintptr_t)v) && put_type(k, type, v->requires);
    if (!put_type(k, type, v->requires))
        return false;
    if (!tape_form_needs_same(form, index))
        return true;
    if (type->data != NULL && !v->requires && type->bytes <= TAPE_SMALL)
        return put_bytes(k, type->data, type->bytes);
    return put(k, (uintptr_t)v);
}

/* Of keys: made of a call with its results, or of what it is called with alone. */
enum { WITH_RESULTS = 0, CALLED_WITH = 2 };

/* What all keys begin with; `kind` is one of these, and whether gradients flow, or may. */
static bool put_call(tape_key *key, const tape_record *r, uint64_t kind)
{
    key->count = 0;
    if (!put(key, (uint64_t)r->schema->opcode | kind << 32) || !put(key, (uint64_t)r->in_count << 32 | r->out_count))
        return false;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->role == XCVM_ROLE_ATTRIBUTE && !put_attribute(key, field, (const char *)r->args + field->offset))
            return false;
    }
    return true;
}

/* The call's key by what it is, results included. */
static bool make_key(const tape_record *r, tape_key *key)
{
    const tape_form *form = r->schema->effect == XCVM_PURE ? tape_form_of(r->schema) : NULL;
    if (form == NULL || !put_call(key, r, WITH_RESULTS | (uint64_t)r->flows))
        return false;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (!put_operand(key, form, i, r->in[i]))
            return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (!(r->out[i] != NULL ? put_type(key, &r->out[i]->value.type, r->out[i]->requires) : put(key, 0)))
            return false;
    return true;
}

/* ---- Calls whose results follow from what they are called with ---- */

/* What is asked of a row at each call. */
typedef struct habit {
    const tape_form *form; /* NULL: it has none, or its results do not follow */
    uint64_t shapes;       /* a bit for each operand whose elements decide a shape */
    bool known;
} habit;

enum { OPERANDS = 64 };

static habit habit_of(const xcvm_schema *schema)
{
    habit h = {.form = schema->effect == XCVM_PURE ? tape_form_of(schema) : NULL, .known = true};
    bool list = false;
    uint32_t at = 0;
    for (size_t f = 0; f < schema->field_count && h.form != NULL; f++) {
        const xcvm_field *field = &schema->fields[f];
        const bool shape = field->role == XCVM_ROLE_IN_SHAPE;
        if (field->dynamic || (shape && (list || at >= OPERANDS)))
            h.form = NULL;
        if (!xcvm_field_is_input(field))
            continue;
        if (shape)
            h.shapes |= UINT64_C(1) << at;
        list = list || xcvm_field_is_list(field);
        at++;
    }
    return h;
}

/* Elements that decide a shape, and are there. */
static bool put_shape(tape_key *key, const habit *h, uint32_t index, const tape_variable *v)
{
    if (v == NULL)
        return true;
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && !v->requires && type->data != NULL && type->bytes <= TAPE_SMALL &&
           (tape_form_needs_same(h->form, index) || put_bytes(key, type->data, type->bytes));
}

/* The call's key by what it is called with, which decides what it gives. */
static bool make_cause(const xcvm_tape *t, const habit *h, const tape_record *r, tape_key *key)
{
    uint64_t wanted = 0;
    if (h->form == NULL || r->out_count > OPERANDS || !put_call(key, r, CALLED_WITH | (uint64_t)t->recording))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        wanted |= (uint64_t)(r->out[i] != NULL) << i;
    if (!put(key, wanted))
        return false;
    for (uint32_t i = 0; i < r->in_count; i++) {
        const bool shape = i < OPERANDS && (h->shapes >> i & 1) != 0;
        if (!put_operand(key, h->form, i, r->in[i]) || (shape && !put_shape(key, h, i, r->in[i])))
            return false;
    }
    return true;
}

/* ---- Kinds ---- */

typedef struct outcome {
    xcvm_value type;
    bool requires;
} outcome;

typedef struct known {
    const uint64_t *words;
    size_t count;
    uint64_t hash;
    const outcome *outcomes; /* for each result, if the key is by what the call is called with */
    uint32_t follower;       /* the kind of the call that came behind the latest one of this kind; 0: none */
    bool flows;
} known;

typedef struct tape_signatures {
    xcvm_arena arena;
    known *known; /* from 1 on */
    uint32_t count, capacity;
    uint32_t latest; /* the kind of the latest call that one was found for; 0: none */
    uint32_t *slots;
    habit habits[XCVM_OPCODE_LIMIT];
} tape_signatures;

enum { FIRST = 256, SLOTS_EACH = 4, MANY = 4096 };

static uint64_t hash_of(const tape_key *key)
{
    uint64_t hash = key->count;
    for (size_t i = 0; i < key->count; i++) {
        hash = (hash ^ key->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool is_of(const known *kind, const tape_key *key)
{
    return kind->count == key->count && memcmp(kind->words, key->words, key->count * sizeof *key->words) == 0;
}

static uint32_t *slot_of(const tape_signatures *k, const tape_key *key, uint64_t hash)
{
    const uint32_t mask = k->capacity * SLOTS_EACH - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        const known *found = &k->known[k->slots[at]];
        if (k->slots[at] == 0 || (found->hash == hash && is_of(found, key)))
            return &k->slots[at];
    }
}

static bool grow(tape_signatures *k)
{
    const uint32_t capacity = k->capacity > 0 ? 2 * k->capacity : FIRST, mask = capacity * SLOTS_EACH - 1;
    known *larger = xcvm_arena_allocate(&k->arena, capacity * sizeof *larger);
    uint32_t *slots = xcvm_arena_allocate(&k->arena, (size_t)capacity * SLOTS_EACH * sizeof *slots);
    if (larger == NULL || slots == NULL)
        return false;
    for (uint32_t i = 1; i < k->count; i++) {
        uint32_t at = (uint32_t)k->known[i].hash & mask;
        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i;
        larger[i] = k->known[i];
    }
    k->known = larger;
    k->slots = slots;
    k->capacity = capacity;
    k->count = k->count > 0 ? k->count : 1;
    return true;
}

static tape_signatures *signatures_of(xcvm_tape *t)
{
    /* Calls that wait have numbers of kinds. */
    if (t->pending == NULL || (t->pending->live == 0 && !t->pending->evaluated))
        tape_signatures_clear(t);
    if (t->signatures == NULL && (t->signatures = xcvm_allocate_zeroed(t->allocator, sizeof *t->signatures)) != NULL)
        t->signatures->arena.allocator = t->allocator;
    return t->signatures;
}

/* Networks make the same calls again and again: what came behind the call before is looked at first, which takes no
 * hash. */
static uint32_t find(tape_signatures *k, const tape_key *key)
{
    if (k->count == 0)
        return 0;
    uint32_t *expected = &k->known[k->latest].follower;
    if (*expected == 0 || !is_of(&k->known[*expected], key))
        *expected = *slot_of(k, key, hash_of(key));
    return k->latest = *expected;
}

/* 0: no memory. */
static uint32_t add(tape_signatures *k, const tape_key *key)
{
    if (k->count == k->capacity && !grow(k))
        return 0;
    const uint64_t hash = hash_of(key);
    uint32_t *slot = slot_of(k, key, hash);
    if (*slot != 0)
        return *slot;
    uint64_t *words = xcvm_arena_allocate(&k->arena, key->count * sizeof *words);
    if (words == NULL)
        return 0;
    memcpy(words, key->words, key->count * sizeof *words);
    k->known[k->count] = (known){.words = words, .count = key->count, .hash = hash};
    return *slot = k->count++;
}

bool tape_signature_recall(xcvm_tape *t, tape_record *r, tape_key *key)
{
    tape_signatures *k = signatures_of(t);
    key->count = 0;
    if (k == NULL)
        return false;
    habit *h = &k->habits[r->schema->opcode];
    if (!h->known)
        *h = habit_of(r->schema);
    if (!make_cause(t, h, r, key)) {
        key->count = 0;
        return false;
    }
    r->signature = find(k, key);
    if (r->signature == 0)
        return false;
    const known *found = &k->known[r->signature];
    r->flows = found->flows;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL) {
            r->out[i]->value.type = found->outcomes[i].type;
            tape_variable_require(r->out[i], found->outcomes[i].requires);
        }
    return true;
}

void tape_signature_note(xcvm_tape *t, tape_record *r, tape_key *key)
{
    tape_signatures *k = t->signatures;
    if (k == NULL)
        return;
    if (key->count == 0) {
        r->signature = make_key(r, key) ? add(k, key) : 0;
        return;
    }
    outcome *outcomes = xcvm_arena_allocate(&k->arena, (r->out_count + 1) * sizeof *outcomes);
    r->signature = outcomes != NULL ? add(k, key) : 0;
    if (r->signature == 0)
        return;
    k->known[r->signature].outcomes = outcomes;
    k->known[r->signature].flows = r->flows;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL)
            outcomes[i] = (outcome){r->out[i]->value.type, r->out[i]->requires};
}

void tape_signatures_clear(xcvm_tape *t)
{
    if (t->signatures != NULL && t->signatures->count > MANY)
        tape_signatures_release(t);
}

void tape_signatures_release(xcvm_tape *t)
{
    if (t->signatures == NULL)
        return;
    xcvm_arena_release(&t->signatures->arena);
    xcvm_deallocate(t->allocator, t->signatures, sizeof *t->signatures);
    t->signatures = NULL;
}
