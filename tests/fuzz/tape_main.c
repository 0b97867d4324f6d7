/* replay_tape [--mode MODE] [--seed SEED] [--count COUNT] [--seconds SECONDS] [--trace]: runs sequences of the
 * tape's fuzz target, one per seed from SEED on, in each mode or the given one. A failure prints its mode and
 * seed. */
#include "tests/fuzz/tape_fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static char failing[96];

/* Also called by the sanitizers, which end the process themselves. */
static void say_which(void) { (void)!write(STDERR_FILENO, failing, strlen(failing)); }

static void on_signal(int number)
{
    say_which();
    signal(number, SIG_DFL);
    raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef struct arguments {
    int mode; /* FUZZ_MODES: all */
    uint64_t seed, count;
    double seconds; /* processor time per mode; 0: no limit */
    bool trace;
} arguments;

static int find_mode(const char *name)
{
    for (int i = 0; i < FUZZ_MODES; i++)
        if (strcmp(name, fuzz_mode_names[i]) == 0)
            return i;
    fprintf(stderr, "there is no mode %s\n", name);
    exit(2);
}

static arguments read_arguments(int argc, char **argv)
{
    arguments a = {.mode = FUZZ_MODES, .seed = 1, .count = UINT64_MAX};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            a.trace = true;
            continue;
        }
        if (strcmp(argv[i], "--mode") == 0)
            a.mode = find_mode(value);
        else if (strcmp(argv[i], "--seed") == 0)
            a.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            a.count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            a.seconds = strtod(value, NULL);
        else
            exit((fprintf(stderr, "%s is no option\n", argv[i]), 2));
        i++;
    }
    if (a.count == UINT64_MAX && a.seconds == 0.0)
        a.count = 1;
    return a;
}

static void run_mode(const arguments *a, fuzz_mode mode)
{
    const double begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t done = 0;
    double used = 0;
    while (done < a->count && (a->seconds == 0.0 || used < a->seconds)) {
        snprintf(failing, sizeof failing, "failing sequence: --mode %s --seed %llu --count 1\n", fuzz_mode_names[mode],
                 (unsigned long long)(a->seed + done));
        alarm(120); /* a hanging sequence */
        fuzz_sequence(mode, a->seed + done, NULL, 0, a->trace);
        done++;
        used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
    }
    printf("%s: %llu sequences, %.1f s of processor time\n", fuzz_mode_names[mode], (unsigned long long)done, used);
    fflush(stdout);
}

/* The sanitizers must let large allocations fail instead of ending the process. */
const char *__asan_default_options(void);

const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

int main(int argc, char **argv)
{
    const arguments a = read_arguments(argc, argv);
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(say_which);
    for (int mode = 0; mode < FUZZ_MODES; mode++)
        if (a.mode == FUZZ_MODES || a.mode == mode)
            run_mode(&a, (fuzz_mode)mode);
    return 0;
}
