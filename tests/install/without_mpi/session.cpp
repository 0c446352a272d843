// Is refused, with the reason.
#include "kolo/comm/session.h"

int main() {}
