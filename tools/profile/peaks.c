/* Peaks: small programs whose instructions are measured as those of any run. */
#include "profile/peaks.h"
#include "cli/buffer.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 5 };

/* The best rate of an instruction over the rounds. */
struct best {
    const char *instruction;
    bool bytes; /* bytes, not flops */
    double rate;
};

static xcvm_status after(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)error;
    struct best *best = user;
    if (strcmp(event->instruction, best->instruction) != 0 || event->end_ns <= event->start_ns)
        return XCVM_OK;
    const uint64_t work = best->bytes ? event->bytes_read + event->bytes_written : event->flops;
    const double rate = (double)work / (double)(event->end_ns - event->start_ns);
    best->rate = rate > best->rate ? rate : best->rate;
    return XCVM_OK;
}

static xcvm_status run(xcvm_program *program, int threads, struct best *best, xcvm_error *error)
{
    const xcvm_session_options options = {.size = sizeof options, .threads = threads};
    const xcvm_observer observer = {.size = sizeof observer, .after = after, .user = best};
    xcvm_session *session;
    xcvm_status status = xcvm_session_create(program, &options, &session, error);
    if (status != XCVM_OK)
        return status;
    xcvm_session_set_observer(session, &observer);
    for (int i = 0; i < ROUNDS && status == XCVM_OK; i++)
        status = xcvm_session_run(session, NULL, error);
    xcvm_session_destroy(session);
    return status;
}

static double measure(const char *text, const char *isa, int threads, struct best best)
{
    const xcvm_load_options options = {.size = sizeof options, .isa = isa, .no_libraries = true};
    struct buffer bytes = {0};
    xcvm_program *program;
    xcvm_error error;
    if (xcvm_assemble(text, strlen(text), NULL, (xcvm_sink){buffer_sink, &bytes}, &error) == XCVM_OK &&
        xcvm_program_load(bytes.data, bytes.length, &options, &program, &error) == XCVM_OK) {
        if (run(program, threads, &best, &error) != XCVM_OK)
            best.rate = 0;
        xcvm_program_destroy(program);
    }
    buffer_release(&bytes);
    return best.rate;
}

static void read_processor(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    name[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file != NULL)
        fclose(file);
}

void peaks_measure(const char *isa, int threads, struct peaks *peaks)
{
    peaks->gflops = measure("xcvm 1\n"
                            "$1 = RandomUniform(i64[2] 768 768, seed=1)\n"
                            "$2 = MatMul($1, $1)\n"
                            "Free($1)\n"
                            "Free($2)\n",
                            isa, threads, (struct best){.instruction = "MatMul"});
    /* Arrays of 32 MB, which no cache holds. */
    peaks->gigabytes = measure("xcvm 1\n"
                               "$1 = RandomUniform(i64[1] 8388608, seed=1)\n"
                               "$2 = Neg($1)\n"
                               "Free($1)\n"
                               "Free($2)\n",
                               isa, threads, (struct best){.instruction = "Neg", .bytes = true});
    read_processor(peaks->processor, sizeof peaks->processor);
}
