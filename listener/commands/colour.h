/* colour.h: colours for states, on terminals only. */
#ifndef WSONCE_COLOUR_H
#define WSONCE_COLOUR_H

enum colour { COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };

/* Prints a state to standard output, padded to width. It has the colour if standard output is a terminal, TERM is not
 * "dumb", and NO_COLOR is not set or empty (no-color.org). */
void colour_print(enum colour colour, int width, const char *state);

#endif
