/* Signals that ask for an end. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { COUNT = sizeof numbers / sizeof *numbers, OF_SIGNALS = 128 };

static struct sigaction before[COUNT];
static void (*volatile stop_function)(void);
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
    for (size_t i = 0; i < COUNT; i++)
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    stop_function();
}

void interrupt_catch(void (*stop)(void))
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    stop_function = stop;
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &action, &before[i]);
        if (numbers[i] == SIGHUP && before[i].sa_handler == SIG_IGN) /* as nohup has it */
            sigaction(numbers[i], &before[i], NULL);
    }
}

void interrupt_release(void)
{
    for (size_t i = 0; i < COUNT; i++)
        sigaction(numbers[i], &before[i], NULL);
}

int interrupt_code(void) { return OF_SIGNALS + (caught != 0 ? caught : SIGINT); }

int interrupt_end(int code)
{
    if (caught == 0 || code != OF_SIGNALS + caught)
        return code;
    fflush(NULL);
    signal(caught, SIG_DFL);
    raise(caught);
    return code;
}
