#ifndef KOLO_TESTS_BINDINGS_CHECK_H
#define KOLO_TESTS_BINDINGS_CHECK_H

/* Checks of the C programs: what does not hold is told, and counted; a program ends with whether
 * there was any. */

#include <stdio.h>
#include <string.h>

#include <kolo/kolo.h>

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)

/* `status` is the expected one, and the message has all of `words` (up to a NULL) where it isn't 0.
 */
static void expect_status(const char* file, int line, const char* call, int status, int expected,
                          const char* const* words) {
  char message[4096] = "";
  if (status != 0) kolo_last_message(message, sizeof message);
  if (status != expected) {
    fprintf(stderr, "%s:%d: %s gave %d instead of %d: %s\n", file, line, call, status, expected,
            message);
    ++failures;
    return;
  }
  for (; *words != NULL; ++words) {
    if (strstr(message, *words) == NULL) {
      fprintf(stderr, "%s:%d: %s: no \"%s\" in: %s\n", file, line, call, *words, message);
      ++failures;
    }
  }
}

/* EXPECT(KOLO_INPUT, kolo_push(...), "words", "of the message") */
#define EXPECT(expected, call, ...)                                   \
  do {                                                                \
    const char* const words_[] = {__VA_ARGS__, NULL};                 \
    expect_status(__FILE__, __LINE__, #call, call, expected, words_); \
  } while (0)

#define SUCCEEDS(call) EXPECT(KOLO_OK, call, NULL)

#endif
