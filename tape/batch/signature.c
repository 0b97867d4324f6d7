/* Signatures: keys that are equal for ops that may run as one batch. */
#include "ops/util/shape.h"
#include "tape/batch/batch.h"

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

/* Sub-byte elements and empty tensors cannot be stacked. */
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

/* Parameters, and other kept matrices. */
static bool is_weight(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && (v->requires || (v->kept && type->rank > 1 && type->dims[type->rank - 1] > 1 &&
                                                  type->dims[type->rank - 2] > 1));
}

static bool put_operand(tape_key *k, const tape_batching_rule *rule, uint32_t index, const tape_variable *v)
{
    if (v == NULL)
        return put(k, 0);
    const xcvm_value *type = &v->value.type;
    if (is_weight(v))
        return put(k, (uintptr_t)v) && put_type(k, type, v->requires);
    if (!put_type(k, type, v->requires))
        return false;
    if (!tape_batching_rule_needs_same(rule, index))
        return true;
    if (type->data != NULL && !v->requires && type->bytes <= TAPE_SMALL)
        return put_bytes(k, type->data, type->bytes);
    return put(k, (uintptr_t)v);
}

/* Kinds of keys: from an op with the types of its results, or from its operands alone. */
enum { WITH_RESULTS = 0, CALLED_WITH = 2 };

/* The common start of all keys. `kind` combines a kind with the flag that gradients flow or may flow. */
static bool put_call(tape_key *key, const tape_op_record *r, uint64_t kind)
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

/* The key of an op with its results. */
static bool make_key(const tape_op_record *r, tape_key *key)
{
    const tape_batching_rule *rule = r->schema->effect == XCVM_PURE ? tape_batching_rule_of(r->schema) : NULL;
    if (rule == NULL || !put_call(key, r, WITH_RESULTS | (uint64_t)r->differentiable))
        return false;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (!put_operand(key, rule, i, r->in[i]))
            return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (!(r->out[i] != NULL ? put_type(key, &r->out[i]->value.type, r->out[i]->requires) : put(key, 0)))
            return false;
    return true;
}

/* ---- Ops whose result types follow from their operands ---- */

/* Properties of an instruction, found once. */
typedef struct op_traits {
    const tape_batching_rule *rule; /* NULL: not batchable, or its result types do not follow from its operands */
    uint64_t shapes;                /* bit per operand whose elements determine a shape */
    bool known;
} op_traits;

enum { OPERANDS = 64 };

static op_traits find_traits(const xcvm_schema *schema)
{
    op_traits h = {.rule = schema->effect == XCVM_PURE ? tape_batching_rule_of(schema) : NULL, .known = true};
    bool list = false;
    uint32_t at = 0;
    for (size_t f = 0; f < schema->field_count && h.rule != NULL; f++) {
        const xcvm_field *field = &schema->fields[f];
        const bool shape = field->role == XCVM_ROLE_IN_SHAPE;
        if (field->dynamic || (shape && (list || at >= OPERANDS)))
            h.rule = NULL;
        if (!xcvm_field_is_input(field))
            continue;
        if (shape)
            h.shapes |= UINT64_C(1) << at;
        list = list || xcvm_field_is_list(field);
        at++;
    }
    return h;
}

/* Adds elements that determine a shape, if they are available. */
static bool put_shape(tape_key *key, const op_traits *h, uint32_t index, const tape_variable *v)
{
    if (v == NULL)
        return true;
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && !v->requires && type->data != NULL && type->bytes <= TAPE_SMALL &&
           (tape_batching_rule_needs_same(h->rule, index) || put_bytes(key, type->data, type->bytes));
}

/* The key of an op without its results, which follow from it. */
static bool make_call_key(const xcvm_tape *t, const op_traits *h, const tape_op_record *r, tape_key *key)
{
    uint64_t wanted = 0;
    if (h->rule == NULL || r->out_count > OPERANDS || !put_call(key, r, CALLED_WITH | (uint64_t)t->recording))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        wanted |= (uint64_t)(r->out[i] != NULL) << i;
    if (!put(key, wanted))
        return false;
    for (uint32_t i = 0; i < r->in_count; i++) {
        const bool shape = i < OPERANDS && (h->shapes >> i & 1) != 0;
        if (!put_operand(key, h->rule, i, r->in[i]) || (shape && !put_shape(key, h, i, r->in[i])))
            return false;
    }
    return true;
}

/* ---- Table ---- */

typedef struct result_type {
    xcvm_value type;
    bool requires;
} result_type;

typedef struct signature_entry {
    const uint64_t *words;
    size_t count;
    uint64_t hash;
    const result_type *results; /* per result, if the key has operands only */
    uint32_t follower;          /* entry of the op that followed the latest one; 0: none */
    bool differentiable;
} signature_entry;

typedef struct tape_signatures {
    xcvm_arena arena;
    signature_entry *entries; /* index 0 is unused */
    uint32_t count, capacity;
    uint32_t latest; /* entry of the latest op that was found; 0: none */
    uint32_t *slots;
    op_traits traits[XCVM_OPCODE_LIMIT];
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

static bool has_key(const signature_entry *kind, const tape_key *key)
{
    return kind->count == key->count && memcmp(kind->words, key->words, key->count * sizeof *key->words) == 0;
}

static uint32_t *find_slot(const tape_signatures *k, const tape_key *key, uint64_t hash)
{
    const uint32_t mask = k->capacity * SLOTS_EACH - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        const signature_entry *found = &k->entries[k->slots[at]];
        if (k->slots[at] == 0 || (found->hash == hash && has_key(found, key)))
            return &k->slots[at];
    }
}

static bool grow_table(tape_signatures *k)
{
    const uint32_t capacity = k->capacity > 0 ? 2 * k->capacity : FIRST, mask = capacity * SLOTS_EACH - 1;
    signature_entry *larger = xcvm_arena_allocate(&k->arena, capacity * sizeof *larger);
    uint32_t *slots = xcvm_arena_allocate(&k->arena, (size_t)capacity * SLOTS_EACH * sizeof *slots);
    if (larger == NULL || slots == NULL)
        return false;
    for (uint32_t i = 1; i < k->count; i++) {
        uint32_t at = (uint32_t)k->entries[i].hash & mask;
        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i;
        larger[i] = k->entries[i];
    }
    k->entries = larger;
    k->slots = slots;
    k->capacity = capacity;
    k->count = k->count > 0 ? k->count : 1;
    return true;
}

static tape_signatures *signatures_of(xcvm_tape *t)
{
    /* Waiting ops refer to entries by index. */
    if (t->batching.pending == NULL || (t->batching.pending->live == 0 && !t->batching.pending->evaluated))
        tape_signatures_clear(t);
    if (t->batching.signatures == NULL &&
        (t->batching.signatures = xcvm_allocate_zeroed(t->allocator, sizeof *t->batching.signatures)) != NULL)
        t->batching.signatures->arena.allocator = t->allocator;
    return t->batching.signatures;
}

/* Networks repeat their ops, so the successor of the previous entry is tried first, without a hash. */
static uint32_t find_signature(tape_signatures *k, const tape_key *key)
{
    if (k->count == 0)
        return 0;
    uint32_t *expected = &k->entries[k->latest].follower;
    if (*expected == 0 || !has_key(&k->entries[*expected], key))
        *expected = *find_slot(k, key, hash_of(key));
    return k->latest = *expected;
}

/* Returns 0 if there is no memory. */
static uint32_t add_signature(tape_signatures *k, const tape_key *key)
{
    if (k->count == k->capacity && !grow_table(k))
        return 0;
    const uint64_t hash = hash_of(key);
    uint32_t *slot = find_slot(k, key, hash);
    if (*slot != 0)
        return *slot;
    uint64_t *words = xcvm_arena_allocate(&k->arena, key->count * sizeof *words);
    if (words == NULL)
        return 0;
    memcpy(words, key->words, key->count * sizeof *words);
    k->entries[k->count] = (signature_entry){.words = words, .count = key->count, .hash = hash};
    return *slot = k->count++;
}

bool tape_signature_recall(xcvm_tape *t, tape_op_record *r, tape_key *key)
{
    tape_signatures *k = signatures_of(t);
    key->count = 0;
    if (k == NULL)
        return false;
    op_traits *h = &k->traits[r->schema->opcode];
    if (!h->known)
        *h = find_traits(r->schema);
    if (!make_call_key(t, h, r, key)) {
        key->count = 0;
        return false;
    }
    r->signature = find_signature(k, key);
    if (r->signature == 0)
        return false;
    const signature_entry *found = &k->entries[r->signature];
    r->differentiable = found->differentiable;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL) {
            r->out[i]->value.type = found->results[i].type;
            tape_variable_require(r->out[i], found->results[i].requires);
        }
    return true;
}

void tape_signature_add(xcvm_tape *t, tape_op_record *r, tape_key *key)
{
    tape_signatures *k = t->batching.signatures;
    if (k == NULL)
        return;
    if (key->count == 0) {
        r->signature = make_key(r, key) ? add_signature(k, key) : 0;
        return;
    }
    result_type *results = xcvm_arena_allocate(&k->arena, (r->out_count + 1) * sizeof *results);
    r->signature = results != NULL ? add_signature(k, key) : 0;
    if (r->signature == 0)
        return;
    k->entries[r->signature].results = results;
    k->entries[r->signature].differentiable = r->differentiable;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL)
            results[i] = (result_type){r->out[i]->value.type, r->out[i]->requires};
}

void tape_signatures_clear(xcvm_tape *t)
{
    if (t->batching.signatures != NULL && t->batching.signatures->count > MANY)
        tape_signatures_release(t);
}

void tape_signatures_release(xcvm_tape *t)
{
    if (t->batching.signatures == NULL)
        return;
    xcvm_arena_release(&t->batching.signatures->arena);
    xcvm_deallocate(t->allocator, t->batching.signatures, sizeof *t->batching.signatures);
    t->batching.signatures = NULL;
}
