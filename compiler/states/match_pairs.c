/* Matches patterns of state pairs with the names of a model's outputs and inputs. */
#include "compiler/states/pair_names.h"
#include "compiler/states/states.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Maximum number of '*' in a pattern, and of names in a message. */
enum { MOST_STARS = 4, LISTED = 6 };

typedef struct matching {
    xcc_module *m;
    xcc_state_pairs *pairs;
    xcc_table inputs; /* index of the graph's input by name */
    bool *input_taken, *output_taken;
    xcc_state_pair *made; /* pairs->at */
    size_t capacity;
    const char *unlike[2]; /* the first output and input that would be a pair if their sizes agreed */
} matching;

static void report_note(const matching *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_note(const matching *k, const char *format, ...)
{
    const xcc_options *o = k->m->options;
    char text[1024];
    va_list arguments;
    if (o->diagnostics.call == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->diagnostics.call(o->diagnostics.user, XCC_DIAGNOSTIC_STATE_PAIR, text);
}

static xcvm_status take_pair(matching *k, size_t output, size_t input)
{
    xcc_graph *g = k->m->graph;
    k->input_taken[input] = k->output_taken[output] = true;
    k->made = xcc_grow(k->m, k->made, k->pairs->count, &k->capacity, sizeof *k->made);
    if (k->made == NULL)
        return XCVM_OUT_OF_MEMORY;
    k->made[k->pairs->count++] = (xcc_state_pair){g->output_names[output], g->inputs[input]->name};
    k->pairs->at = k->made;
    return XCVM_OK;
}

/* ---- Patterns with stars ---- */

/* The parts of a pattern between its stars. */
typedef struct pattern {
    const char *at[MOST_STARS + 1];
    size_t length[MOST_STARS + 1];
    size_t stars;
} pattern;

static bool split_pattern(const char *text, size_t length, pattern *p)
{
    *p = (pattern){.at = {text}};
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '*') {
            p->length[p->stars]++;
            continue;
        }
        if (p->stars == MOST_STARS)
            return false;
        p->at[++p->stars] = text + i + 1;
    }
    return true;
}

/* Returns the colon in the middle: as many colons precede it as follow it. */
static const char *middle_colon(const char *text)
{
    size_t colons = 0;
    for (const char *at = text; *at != '\0'; at++)
        colons += *at == ':';
    const char *middle = text;
    for (size_t i = 0; i < colons / 2 + 1 && middle != NULL; i++)
        middle = strchr(middle + (i > 0), ':');
    return colons % 2 == 0 || middle == text || middle[1] == '\0' ? NULL : middle;
}

/* A search for the inputs that match one output. */
typedef struct search {
    matching *k;
    const pattern *output, *input;
    const char *captured[MOST_STARS];
    size_t captured_length[MOST_STARS];
    char *name; /* name of an input, with space for each capture */
    bool fits;  /* the output matches its pattern */
    size_t found, count;
} search;

static void look_up(search *s)
{
    char *at = s->name;
    s->fits = true;
    for (size_t i = 0; i <= s->input->stars; i++) {
        memcpy(at, s->input->at[i], s->input->length[i]);
        at += s->input->length[i];
        if (i == s->input->stars)
            break;
        memcpy(at, s->captured[i], s->captured_length[i]);
        at += s->captured_length[i];
    }
    *at = '\0';
    const struct xcc_table_entry *entry = xcc_table_lookup(&s->k->inputs, s->name);
    if (entry == NULL || s->k->input_taken[entry->value] || (s->count > 0 && s->found == (size_t)entry->value))
        return;
    s->found = (size_t)entry->value;
    s->count++;
}

/* Tries every way to match the parts from `part` on with the rest of an output's name. */
static xcvm_status match_rest(search *s, size_t part, const char *rest)
{
    const pattern *p = s->output;
    XCVM_TRY(xcc_poll(s->k->m));
    if (strncmp(rest, p->at[part], p->length[part]) != 0)
        return XCVM_OK;
    rest += p->length[part];
    if (part == p->stars || part >= MOST_STARS) {
        if (*rest == '\0')
            look_up(s);
        return XCVM_OK;
    }
    const size_t left = strlen(rest);
    for (size_t length = 0; length <= left; length++) {
        /* After the last star only one length matches. */
        if (part + 1 == p->stars) {
            if (p->length[part + 1] > left)
                return XCVM_OK;
            length = left - p->length[part + 1];
        }
        s->captured[part] = rest;
        s->captured_length[part] = length;
        XCVM_TRY(match_rest(s, part + 1, rest + length));
        if (part + 1 == p->stars)
            break;
    }
    return XCVM_OK;
}

static xcvm_status match_output(matching *k, const char *text, const pattern *output, const pattern *input,
                                size_t index)
{
    const char *name = k->m->graph->output_names[index];
    size_t room = strlen(text) + 1 + MOST_STARS * strlen(name);
    search s = {.k = k, .output = output, .input = input, .name = xcc_alloc(k->m, room)};
    if (s.name == NULL)
        return XCVM_OUT_OF_MEMORY;
    const xcvm_status status = match_rest(&s, 0, name);
    xcc_free(k->m, s.name, room);
    XCVM_TRY(status);
    if (!s.fits)
        return XCVM_OK;
    if (s.count == 1)
        return take_pair(k, index, s.found);
    if (s.count == 0)
        report_note(k, "output \"%.200s\" matches \"%.200s\", but no input does. It stays an output", name, text);
    else
        report_note(k, "output \"%.200s\" matches \"%.200s\" with %zu inputs. It stays an output", name, text, s.count);
    return XCVM_OK;
}

/* Lists the first names, separated by commas. */
static const char *list_names(size_t count, const char *(*name)(const xcc_graph *g, size_t i), const xcc_graph *g,
                              char text[512])
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && i < LISTED; i++)
        length += (size_t)snprintf(text + length, 512 - length, "%s%.60s", i > 0 ? ", " : "", name(g, i));
    if (count > LISTED)
        snprintf(text + length, 512 - length, ", and %zu more", count - LISTED);
    return text;
}

static const char *output_name(const xcc_graph *g, size_t i) { return g->output_names[i]; }
static const char *input_name(const xcc_graph *g, size_t i) { return g->inputs[i]->name; }

static xcvm_status refuse_pattern(const matching *k, const char *text, const char *why, const char *remedy)
{
    const xcc_graph *g = k->m->graph;
    char outputs[512], inputs[512];
    return xcvm_error_set(k->m->error, XCVM_INVALID_ARGUMENT,
                          "state pairs \"%.100s\": %s (outputs: %s; inputs: %s). %s", text, why,
                          list_names(g->output_count, output_name, g, outputs),
                          list_names(g->input_count, input_name, g, inputs), remedy);
}

static xcvm_status match_pattern(matching *k, const char *text)
{
    pattern output, input;
    const char *colon = middle_colon(text);
    XCVM_CHECK(
        k->m->error, colon != NULL, INVALID_ARGUMENT,
        "state pairs \"%.200s\": a pattern is OUTPUT:INPUT, for example \"present.*:past_key_values.*\", or \"auto\"",
        text);
    const bool split =
        split_pattern(text, (size_t)(colon - text), &output) && split_pattern(colon + 1, strlen(colon + 1), &input);
    XCVM_CHECK(k->m->error, split && output.stars == input.stars, INVALID_ARGUMENT,
               "state pairs \"%.200s\": output and input need the same number of '*', %d at most", text, MOST_STARS);
    const size_t before = k->pairs->count;
    for (size_t i = 0; i < k->m->graph->output_count; i++)
        if (!k->output_taken[i])
            XCVM_TRY(match_output(k, text, &output, &input, i));
    return k->pairs->count > before
               ? XCVM_OK
               : refuse_pattern(k, text, "no output and input match it", "Use auto, or name each pair as OUTPUT:INPUT");
}

/* ---- Conventions ---- */

typedef struct conventions {
    xcc_pair_name *inputs, *outputs;
    xcc_table by_key; /* index of the only free output with the key; -1: there are several */
} conventions;

/* Keys and values of an encoder are computed once. Later runs of a merged decoder return empty tensors for them. */
static bool is_of_encoder(const xcc_pair_name *name)
{
    return name->key != NULL && (strncmp(name->key, "encoder.", 8) == 0 || strstr(name->key, ".encoder.") != NULL);
}

static xcvm_status read_names(matching *k, conventions *c)
{
    const xcc_graph *g = k->m->graph;
    c->inputs = xcc_alloc(k->m, (g->input_count + 1) * sizeof *c->inputs);
    c->outputs = xcc_alloc(k->m, (g->output_count + 1) * sizeof *c->outputs);
    if (c->inputs == NULL || c->outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->input_count; i++) {
        XCVM_TRY(xcc_poll(k->m));
        XCVM_TRY(xcc_pair_name_read(k->m, g->inputs[i]->name, true, &c->inputs[i]));
    }
    for (size_t i = 0; i < g->output_count; i++) {
        XCVM_TRY(xcc_poll(k->m));
        XCVM_TRY(xcc_pair_name_read(k->m, g->output_names[i], false, &c->outputs[i]));
        const char *key = c->outputs[i].key;
        if (k->output_taken[i] || key == NULL || is_of_encoder(&c->outputs[i]))
            continue;
        const bool again = xcc_table_lookup(&c->by_key, key) != NULL;
        XCVM_TRY(xcc_table_put(k->m, &c->by_key, key, again ? -1 : (int64_t)i));
    }
    return XCVM_OK;
}

static size_t output_of_key(const matching *k, const conventions *c, const char *key)
{
    const struct xcc_table_entry *entry = key != NULL ? xcc_table_lookup(&c->by_key, key) : NULL;
    return entry == NULL || entry->value < 0 || k->output_taken[entry->value] ? SIZE_MAX : (size_t)entry->value;
}

static bool may_be_state(matching *k, size_t output, const xcc_value *input)
{
    const xcc_graph *g = k->m->graph;
    const bool agree = xcc_state_types_agree(&g->outputs[output]->type, &input->type);
    if (!agree && k->unlike[0] == NULL) {
        k->unlike[0] = g->output_names[output];
        k->unlike[1] = input->name;
    }
    return agree;
}

/* Pairs each input with the only free output of the same key. Inputs that share a key are not paired. */
static xcvm_status match_keys(matching *k, const conventions *c, bool first)
{
    const xcc_graph *g = k->m->graph;
    xcc_table seen = {.count = 0};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < g->input_count; i++) {
            const char *key = first ? c->inputs[i].first_key : c->inputs[i].key;
            if (k->input_taken[i] || key == NULL)
                continue;
            const struct xcc_table_entry *entry = xcc_table_lookup(&seen, key);
            if (pass == 0) {
                XCVM_TRY(xcc_table_put(k->m, &seen, key, entry != NULL ? entry->value + 1 : 1));
                continue;
            }
            const size_t output = output_of_key(k, c, key);
            if (output != SIZE_MAX && entry->value == 1 && xcc_pair_names_fit(&c->inputs[i], &c->outputs[output]) &&
                may_be_state(k, output, g->inputs[i]))
                XCVM_TRY(take_pair(k, output, i));
        }
    return XCVM_OK;
}

/* Pairs each input with the only free output that is its next value according to the graph. */
static xcvm_status match_structure(matching *k, const conventions *c)
{
    const xcc_graph *g = k->m->graph;
    int64_t *next = xcc_alloc(k->m, (g->input_count + 1) * sizeof *next); /* index of an output plus 1; -1: several */
    xcc_table places = k->inputs;
    if (next == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++) {
        XCVM_TRY(xcc_poll(k->m));
        const xcc_value *of =
            k->output_taken[i] || is_of_encoder(&c->outputs[i]) ? NULL : xcc_state_of_output(g, g->outputs[i]);
        const struct xcc_table_entry *place = of != NULL ? xcc_table_lookup(&places, of->name) : NULL;
        if (place != NULL && !k->input_taken[place->value] && may_be_state(k, i, of))
            next[place->value] = next[place->value] != 0 ? -1 : (int64_t)i + 1;
    }
    for (size_t i = 0; i < g->input_count; i++)
        if (next[i] > 0)
            XCVM_TRY(take_pair(k, (size_t)next[i] - 1, i));
    return XCVM_OK;
}

/* Reports names that look like states. */
static xcvm_status report_left(const matching *k, const conventions *c)
{
    const xcc_graph *g = k->m->graph;
    for (size_t i = 0; i < g->input_count; i++) {
        const xcc_pair_name *name = &c->inputs[i];
        if (k->input_taken[i] || !(name->marked || (name->memory && name->first_key != NULL)))
            continue;
        const bool several = name->key != NULL && xcc_table_lookup(&c->by_key, name->key) != NULL;
        report_note(k, "input \"%.200s\" looks like a state, but %s. It stays an input", g->inputs[i]->name,
                    is_of_encoder(name) ? "keys and values of an encoder do not change between runs"
                    : several           ? "no single output matches its name and type"
                                        : "no output has a matching name");
    }
    for (size_t i = 0; i < g->output_count; i++)
        if (!k->output_taken[i] && c->outputs[i].marked && c->outputs[i].memory)
            report_note(k, "output \"%.200s\" looks like a state, but %s. It stays an output", g->output_names[i],
                        is_of_encoder(&c->outputs[i]) ? "keys and values of an encoder do not change between runs"
                                                      : "no single input matches it");
    return XCVM_OK;
}

static bool has_float_input(const xcc_graph *g)
{
    for (size_t i = 0; i < g->input_count; i++)
        if (g->inputs[i]->type.kind != XCVM_KIND_TENSOR ||
            !xcvm_dtype_in(g->inputs[i]->type.dtype, XCVM_TYPES_INT | XCVM_TYPES_BOOL))
            return true;
    return false;
}

/* No pair was found, for one of the reasons of docs/decoders.md. */
static xcvm_status refuse_auto(const matching *k)
{
    char remedy[400];
    if (!has_float_input(k->m->graph))
        return refuse_pattern(k, "auto", "no input can be a state, because all are integers",
                              "The model was exported without a cache, so that each run needs all tokens. Export the "
                              "cache as inputs and outputs, or run the model without states");
    if (k->unlike[0] == NULL)
        return refuse_pattern(k, "auto", "neither names nor graph show an output that is the next value of an input",
                              "Name each pair as OUTPUT:INPUT");
    snprintf(
        remedy, sizeof remedy,
        "Output \"%.100s\" follows input \"%.100s\", but their sizes are those of the example. Export them with open "
        "sizes (dynamic_axes)",
        k->unlike[0], k->unlike[1]);
    return refuse_pattern(k, "auto", "no output has the type of the input that it follows", remedy);
}

static xcvm_status match_auto(matching *k)
{
    conventions c = {.by_key = {.count = 0}};
    const size_t before = k->pairs->count;
    XCVM_TRY(read_names(k, &c));
    XCVM_TRY(match_keys(k, &c, false));
    XCVM_TRY(match_keys(k, &c, true));
    XCVM_TRY(match_structure(k, &c));
    const size_t made = k->pairs->count - before;
    if (made == 0)
        return refuse_auto(k);
    const xcc_state_pair *pair = &k->made[before];
    report_note(k, "\"auto\" found %zu %s, the first one is %.200s:%.200s", made, made == 1 ? "state" : "states",
                pair->output, pair->input);
    return report_left(k, &c);
}

/* ---- All ---- */

static xcvm_status begin_matching(matching *k)
{
    xcc_module *m = k->m;
    const xcc_options *o = m->options;
    const xcc_graph *g = m->graph;
    k->input_taken = xcc_alloc(m, (g->input_count + 1) * sizeof *k->input_taken);
    k->output_taken = xcc_alloc(m, (g->output_count + 1) * sizeof *k->output_taken);
    if (k->input_taken == NULL || k->output_taken == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->input_count; i++)
        if (xcc_table_lookup(&k->inputs, g->inputs[i]->name) == NULL)
            XCVM_TRY(xcc_table_put(m, &k->inputs, g->inputs[i]->name, (int64_t)i));
    for (size_t i = 0; i < o->states.pair_count; i++) {
        const struct xcc_table_entry *input = xcc_table_lookup(&k->inputs, o->states.pairs[i].input),
                                     *output = xcc_table_lookup(&k->pairs->outputs, o->states.pairs[i].output);
        if (input != NULL)
            k->input_taken[input->value] = true;
        if (output != NULL)
            k->output_taken[output->value] = true;
        k->made = xcc_grow(m, k->made, k->pairs->count, &k->capacity, sizeof *k->made);
        if (k->made == NULL)
            return XCVM_OUT_OF_MEMORY;
        k->made[k->pairs->count++] = o->states.pairs[i];
    }
    k->pairs->at = k->made;
    return XCVM_OK;
}

xcvm_status xcc_match_pairs(xcc_module *m, xcc_state_pairs *pairs)
{
    const xcc_options *o = m->options;
    matching k = {.m = m, .pairs = pairs, .inputs = {.count = 0}};
    pairs->count = 0;
    XCVM_TRY(begin_matching(&k));
    for (size_t i = 0; i < o->states.pattern_count; i++)
        XCVM_TRY(strcmp(o->states.patterns[i], "auto") == 0 ? match_auto(&k)
                                                            : match_pattern(&k, o->states.patterns[i]));
    return XCVM_OK;
}
