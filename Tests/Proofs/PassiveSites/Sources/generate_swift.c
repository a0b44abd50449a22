/* Call chains in Swift. */
#include "generate.h"

#include <stdio.h>

/* Blocking functions in C and in Swift. "once" waits for a global that another thread initializes. */
static const char *const leaves[] = {"read",
                                     "semaphore",
                                     "mutex",
                                     "condition",
                                     "poll",
                                     "nanosleep",
                                     "epoll",
                                     "usleep",
                                     "wait",
                                     "swift_mutex",
                                     "swift_mutex",
                                     "once",
                                     "once",
                                     "futex",
                                     "select",
                                     "queue",
                                     "dispatch_semaphore"};

static const char prelude[] =
    "import Dispatch\nimport Glibc\nimport Synchronization\n"
    "protocol Kept { var size: Int { get } }\n"
    "extension Int: Kept { var size: Int { self } }\n"
    "extension String: Kept { var size: Int { count } }\n"
    "struct Large: Kept { var a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8; var i = [1, 2]; var size: Int "
    "{ a + h } }\n"
    "protocol Step { func go(_ p: Int) -> Int }\n"
    "struct Other: Step { func go(_ p: Int) -> Int { p } }\n"
    "enum Failure: Error { case one(Int) }\n"
    "@inline(never) func touch<T>(_ value: inout T) { withUnsafeMutablePointer(to: &value) { escape($0) } }\n"
    "@inline(never) func keep(_ value: Int) { var value = value; touch(&value) }\n"
    "@inline(never) func fails(_ p: Int) throws { if p < 1000000 { throw Failure.one(p) } }\n"
    "@inline(never) func keptValue(_ n: Int) -> any Kept {\n"
    "  if n & 3 == 0 { return n }\n  return n & 3 == 1 ? String(repeating: \"x\", count: n & 15) as any Kept : "
    "Large()\n}\n"
    "let helperReady = Atomic<Int>(0)\n"
    "let heldMutex = Mutex(0)\n"
    "let heldQueue = DispatchQueue(label: \"held\")\n"
    "func waitUntilOver() { helperReady.store(1, ordering: .sequentiallyConsistent); while is_over() == 0 { "
    "usleep(1000) } }\n"
    "func startHelper(_ body: @escaping @Sendable @convention(c) (UnsafeMutableRawPointer?) -> "
    "UnsafeMutableRawPointer?) {\n"
    "  helperReady.store(0, ordering: .sequentiallyConsistent)\n  var thread = pthread_t()\n"
    "  pthread_create(&thread, nil, body, nil)\n  pthread_detach(thread)\n"
    "  while helperReady.load(ordering: .sequentiallyConsistent) == 0 { usleep(200) }\n}\n"
    "@inline(never) func block_swift_mutex() -> Int32 {\n  if is_dry() != 0 { return 1 }\n"
    "  startHelper { _ in heldMutex.withLock { $0 += 1; waitUntilOver() }; return nil }\n"
    "  arrive()\n  return heldMutex.withLock { Int32(truncatingIfNeeded: $0) }\n}\n"
    "@inline(never) func block_queue() -> Int32 {\n  if is_dry() != 0 { return 1 }\n"
    "  startHelper { _ in heldQueue.sync { waitUntilOver() }; return nil }\n"
    "  arrive()\n  return heldQueue.sync { 1 }\n}\n"
    "@inline(never) func block_dispatch_semaphore() -> Int32 {\n  if is_dry() != 0 { return 1 }\n"
    "  let semaphore = DispatchSemaphore(value: 0)\n  arrive()\n"
    "  while is_over() == 0 { _ = semaphore.wait(timeout: .now() + .milliseconds(300)) }\n  return 1\n}\n";

static const struct shape_text shapes[] = {
    {"", "  result = CALL\n"},
    {"", "  result = CALL\n  keep(a)\n"},
    {"", "  if a != 777777 { result = CALL } else { keep(a) }\n"},
    {"@inline(never) func g%1$d_%2$d<T: Kept>(_ value: T, _ p: Int) -> Int {\n  var copy = value\n  touch(&copy)\n"
     "  let r = CALL\n  return r + copy.size + p\n}\n",
     "  let value: any Kept = keptValue(a)\n  result = g%1$d_%2$d(value, a)\n"},
    {"@inline(never) func g%1$d_%2$d<T, R>(_ value: T, _ body: (T) -> R) -> (R, T) {\n  var copy = value\n  "
     "touch(&copy)\n"
     "  let r = body(copy)\n  return (r, copy)\n}\n",
     "  result = g%1$d_%2$d((a, \"x\")) { pair in CALL + pair.0 }.0\n"},
    {"struct w%1$d_%2$d: Step { var kept: Int\n  @inline(never) func go(_ p: Int) -> Int { let r = CALL; return r + "
     "kept + p }\n}\n"
     "@inline(never) func m%1$d_%2$d(_ n: Int) -> any Step { n > 100000 ? Other() : w%1$d_%2$d(kept: n) }\n",
     "  let step = m%1$d_%2$d(a)\n  result = step.go(a)\n"},
    {"nonisolated(unsafe) var c%1$d_%2$d: ((Int) -> Int)? = nil\n",
     "  let kept = [a, a + 1]\n  c%1$d_%2$d = { p in let r = CALL; return r + kept[0] + p }\n  result = "
     "c%1$d_%2$d!(a)\n"},
    {"@inline(never) func t%1$d_%2$d(_ body: (Int) throws -> Int) rethrows -> Int { let r = try body(3); keep(r); "
     "return r }\n",
     "  result = t%1$d_%2$d { p in CALL + p + a }\n"},
    {"", "  result = [a, a + 1].map { p in p == a ? CALL + p : p }.reduce(0, +)\n"},
    {"", "  var numbers = [3, 1, 2], calls = 0\n  numbers.sort { calls += 1; if calls == 1 { result += CALL }; "
         "return $0 < $1 }\n"},
    {"class b%1$d_%2$d { func go(_ p: Int) -> Int { p } }\n"
     "final class d%1$d_%2$d: b%1$d_%2$d { var kept = 1\n  override func go(_ p: Int) -> Int { kept += CALL; return "
     "kept + p }\n}\n"
     "@inline(never) func m%1$d_%2$d(_ n: Int) -> b%1$d_%2$d { n > 100000 ? b%1$d_%2$d() : d%1$d_%2$d() }\n",
     "  result = m%1$d_%2$d(a).go(a)\n"},
    {"", "  do { try fails(a) } catch { result = CALL; keep(a) }\n"},
    {"@inline(never) func t%1$d_%2$d(_ p: Int) throws -> Int { if p > 1000000 { throw Failure.one(p) }; return CALL "
     "+ p }\n",
     "  result = (try? t%1$d_%2$d(a)) ?? 0\n"},
    {"", "  defer { keep(a) }\n  result = CALL\n"},
    {"", "  result = withUnsafeTemporaryAllocation(byteCount: (a & 63) + 64, alignment: 16) { buffer in\n"
         "    buffer[0] = 1\n    escape(buffer.baseAddress!)\n    let r = CALL\n    return r + Int(buffer[0])\n  }\n"},
    {"", "  var large = Large()\n  touch(&large)\n  result = CALL\n  touch(&large)\n  result += large.size\n"},
    {"let l%1$d_%2$d: Int = CALL\n", "  result = is_dry() != 0 ? 1 : l%1$d_%2$d\n"},
    {"struct k%1$d_%2$d { var kept: Int\n  var go: Int { CALL + kept }\n}\n"
     "@inline(never) func m%1$d_%2$d(_ n: Int) -> KeyPath<k%1$d_%2$d, Int> { n > 100000 ? \\.kept : \\.go }\n",
     "  let object = k%1$d_%2$d(kept: a)\n  result = object[keyPath: m%1$d_%2$d(a)]\n"},
    {"nonisolated(unsafe) var c%1$d_%2$d = 0\n",
     "  var sorted: [Int32] = [2, 1]\n"
     "  qsort(&sorted, 2, 4) { _, _ in Int32(truncatingIfNeeded: CALL) }\n  result = Int(sorted[0])\n"},
    {"enum e%1$d_%2$d { case none, one(Int), many([Int]) }\n"
     "@inline(never) func m%1$d_%2$d(_ n: Int) -> e%1$d_%2$d { n > 100000 ? .none : n & 1 == 0 ? .one(n) : "
     ".many([n, n]) }\n",
     "  switch m%1$d_%2$d(a) {\n  case .none: keep(1)\n  case .one(let n): result = CALL + n\n"
     "  case .many(let numbers): result = CALL + numbers.count\n  }\n"},
    {"struct y%1$d_%2$d { var kept = [1]\n  var first: Int {\n    get { kept[0] }\n    _modify { keep(kept[0]); "
     "yield &kept[0]; keep(1) }\n  }\n}\n"
     "@inline(never) func u%1$d_%2$d(_ value: inout Int) { value += CALL }\n",
     "  var object = y%1$d_%2$d()\n  u%1$d_%2$d(&object.first)\n  result = object.first\n"},
    {"", "  let text = String(repeating: \"x\", count: a & 31), numbers = Array(0..<(a & 7))\n  result = CALL\n"
         "  result += text.count + numbers.count\n"},
    {"let q%1$d_%2$d = DispatchQueue(label: \"private\")\n", "  result = q%1$d_%2$d.sync { CALL + a }\n"},
    {"", "  result = \"some text\".withCString { text in Int(text[0]) + CALL }\n"},
    {"nonisolated(unsafe) var again%1$d_%2$d = 0\n",
     "  if again%1$d_%2$d < 3 {\n    again%1$d_%2$d += 1\n    result = SELF\n    again%1$d_%2$d -= 1\n  } else {\n  "
     "  result = CALL\n  }\n"},
    {"", "  if a != 123456 { return CALL }\n"},
    {"", "  if a != 123456 { return CALL }\n"},
};

static void print_function(const struct level *level) {
  int shape = below(sizeof shapes / sizeof shapes[0]);
  struct level outside = *level;
  print_filled(level, shapes[shape].before);
  printf("@inline(never) func s%d_%d(", level->chain, level->level);
  for (int index = 0; index < level->parameters; index++)
    printf("%s_ p%d: Int", index ? ", " : "", index);
  printf(") -> Int {\n  let a = %s\n  var result = 0\n", level->parameters ? "p0" : "Int(is_dry()) + 5");
  if (happens(15))
    printf("  _ = churn(Int32(truncatingIfNeeded: a & 7))\n");
  if (happens(20)) {
    outside.parameters = 0;
    printf("  if is_dry() == 0 { deeper(%d, { _ in Int32(truncatingIfNeeded: ", below(12));
    print_call(&outside, level->callee);
    printf(") }, nil) }\n");
  }
  const char *way = a_bare_way();
  if (way[0] != 0) {
    outside.parameters = 0;
    printf("  result = Int(through_%s({ _ in Int32(truncatingIfNeeded: ", way);
    print_call(&outside, level->callee);
    printf(") }, nil))\n");
  } else {
    print_filled(level, shapes[shape].body);
  }
  printf("  keep(result)\n  return result &+ 1\n}\n");
}

void generate_swift(int chains) {
  fputs(prelude, stdout);
  for (int chain = 0; chain < chains; chain++) {
    struct level level = {.chain = chain};
    const char *leaf = one_of(leaves, sizeof leaves / sizeof leaves[0]);
    if (leaf[0] == 'o')
      printf("let once%1$d: Int32 = { waitUntilOver(); return 1 }()\n"
             "@inline(never) func block_once%1$d() -> Int32 {\n  if is_dry() != 0 { return 1 }\n"
             "  startHelper { _ in sinkOnce(once%1$d); return nil }\n  arrive()\n  return once%1$d\n}\n",
             chain);
    printf("@inline(never) func leaf%d() -> Int { Int(block_%s", chain, leaf);
    printf(leaf[0] == 'o' ? "%d()) }\n" : "()) }\n", chain);
    snprintf(level.callee, sizeof level.callee, "leaf%d", chain);
    for (level.level = below(7); level.level >= 0; level.level--) {
      level.parameters = level.level == 0 ? OUTERMOST_PARAMETERS : below(PARAMETERS_MAX + 1);
      print_function(&level);
      snprintf(level.callee, sizeof level.callee, "s%d_%d", chain, level.level);
      level.callee_parameters = level.parameters;
    }
  }
  printf("@inline(never) func sinkOnce(_ value: Int32) { keep(Int(value)) }\n"
         "@_cdecl(\"site_count\") func siteCount() -> Int32 { %d }\n"
         "@_cdecl(\"site_run\") func siteRun(_ number: Int32) -> Int32 {\n  var result = 0\n  switch number {\n",
         chains);
  for (int chain = 0; chain < chains; chain++)
    printf("  case %d: result = s%d_0(1, 2, 3, 4, 5, 6, 7, 8)\n", chain, chain);
  printf("  default: break\n  }\n  return Int32(truncatingIfNeeded: result)\n}\n");
}
