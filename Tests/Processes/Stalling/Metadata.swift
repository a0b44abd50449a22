import Glibc
import TestWorkloads

extension Scenario {
  /// Instantiates types until a signal interrupts the thread, and stays in the signal's handler.
  func runInMetadata(on stage: Stage) throws {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in workload_hold() }
    sigaction(SIGUSR1, &action, nil)
    let interrupter = workload_thread_start(
      { thread, _ in
        usleep(.random(in: 20_000...100_000))
        // SAFETY: the pointer was made from the pthread_t below.
        pthread_kill(pthread_t(UInt(bitPattern: thread)), SIGUSR1)
        workload_contend({ _ in }, nil)
      },
      UnsafeMutableRawPointer(bitPattern: UInt(pthread_self()))
    )
    try stage.turn("main") { while makeTypes(Int.self, depth: 24) != 0 {} }
    workload_thread_stop(interrupter)
  }
}

/// Instantiates 2 to the power of `depth` types, each once per process.
@inline(never)
func makeTypes<Element>(_: Element.Type, depth: Int) -> Int {
  guard depth > 0 else { return MemoryLayout<Element>.size }
  return makeTypes([Element].self, depth: depth - 1) + makeTypes((Element, Int).self, depth: depth - 1)
}
