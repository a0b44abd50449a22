#include "CRunLoop.h"

#include <limits.h>
#include <stdlib.h>

/* Declared here because the package manager does not let C targets find CFRunLoop.h. */
typedef const void *CFTypeRef;
typedef struct __CFRunLoop *CFRunLoopRef;
typedef struct __CFRunLoopObserver *CFRunLoopObserverRef;
typedef struct {
  long version;
  void *info;
  const void *(*retain)(const void *info);
  void (*release)(const void *info);
  CFTypeRef (*copy_description)(const void *info);
} CFRunLoopObserverContext;

#pragma weak CFRunLoopGetMain
#pragma weak CFRunLoopGetCurrent
#pragma weak CFRunLoopAddObserver
#pragma weak CFRunLoopObserverCreate
#pragma weak CFRunLoopObserverInvalidate
#pragma weak CFRelease
#pragma weak kCFRunLoopCommonModes

extern CFRunLoopRef CFRunLoopGetMain(void);
extern CFRunLoopRef CFRunLoopGetCurrent(void);
extern void CFRunLoopAddObserver(CFRunLoopRef loop, CFRunLoopObserverRef observer, CFTypeRef mode);
extern CFRunLoopObserverRef CFRunLoopObserverCreate(CFTypeRef allocator, unsigned long activities,
                                                    unsigned char repeats, long order,
                                                    void (*callout)(CFRunLoopObserverRef, unsigned long, void *),
                                                    CFRunLoopObserverContext *context);
extern void CFRunLoopObserverInvalidate(CFRunLoopObserverRef observer);
extern void CFRelease(CFTypeRef object);
extern const CFTypeRef kCFRunLoopCommonModes;

struct callback {
  void (*function)(unsigned long, void *);
  void *context;
};

static void called(CFRunLoopObserverRef observer, unsigned long activity, void *info) {
  (void)observer;
  const struct callback *callback = info;
  callback->function(activity, callback->context);
}

bool crunloop_available(void) { return CFRunLoopObserverCreate != NULL && CFRunLoopAddObserver != NULL; }

void *crunloop_main(void) { return crunloop_available() ? CFRunLoopGetMain() : NULL; }

void *crunloop_current(void) { return crunloop_available() ? CFRunLoopGetCurrent() : NULL; }

void *crunloop_add_observer(void *loop, unsigned long activities, bool first,
                            void (*function)(unsigned long activity, void *context), void *context) {
  struct callback *callback = crunloop_available() ? malloc(sizeof *callback) : NULL;
  if (!callback)
    return NULL;
  *callback = (struct callback){function, context};
  /* Never freed (16 bytes for each observer), because removing the observer does not wait for a running callback. */
  CFRunLoopObserverContext observed = {.version = 0, .info = callback};
  CFRunLoopObserverRef observer =
      CFRunLoopObserverCreate(NULL, activities, 1, first ? LONG_MIN : LONG_MAX, called, &observed);
  if (!observer) {
    free(callback);
    return NULL;
  }
  CFRunLoopAddObserver(loop, observer, kCFRunLoopCommonModes);
  return observer;
}

void crunloop_remove_observer(void *observer) {
  CFRunLoopObserverInvalidate(observer);
  CFRelease(observer);
}
