/* Signals that ask for an end, as Ctrl-C does. Without a handler they end the process at once, and temporary files are
 * removed (io/cleanup.h). What may finish first, as a step of training, catches them. */
#ifndef XCVM_TOOLS_CLI_INTERRUPT_H
#define XCVM_TOOLS_CLI_INTERRUPT_H

/* Calls `stop` at the first SIGINT, SIGTERM or SIGHUP, in the signal handler; a second one ends the process. */
void interrupt_catch(void (*stop)(void));
/* Signals do what they did before. */
void interrupt_release(void);
/* The exit code of a process that was asked to end: 128 and the signal's number, as shells have it; that of Ctrl-C if
 * another process was asked. */
int interrupt_code(void);
/* Ends the process by the signal that `code` stands for, so that scripts end too; else returns `code`. */
int interrupt_end(int code);

#endif
