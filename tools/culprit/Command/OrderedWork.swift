import Glibc

/// Processes inputs in parallel and returns the results in order.
enum OrderedWork {
  /// Maximum number of threads. Each thread holds an input in memory.
  private static let threadsMax = 4
  /// Maximum number of waiting results per thread.
  private static let resultsAhead = 4

  /// Calls `work` on several threads, or sequentially on the calling thread if `isAlone`. Calls `use` on the calling
  /// thread in the order of the inputs.
  static func forEach<Input: Sendable, Worker, Output>(
    _ inputs: [Input],
    isAlone: Bool,
    _ makeWorker: @escaping @Sendable () -> Worker,
    _ work: @escaping @Sendable (Worker, Input) -> Output,
    _ use: (Output) -> Void
  ) {
    let cpus = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    let count = min(cpus, threadsMax, inputs.count)
    let results = Results<Output>(count: inputs.count, ahead: count * resultsAhead)
    var started = 0
    if !isAlone, count > 1 {
      while started < count,
        startThread({
          let worker = makeWorker()
          while let number = results.claim() { results.put(work(worker, inputs[number]), number) }
        })
      { started += 1 }
    }
    guard started > 0 else {
      let worker = makeWorker()
      for input in inputs { use(work(worker, input)) }
      return
    }
    for number in inputs.indices { use(results.take(number)) }
  }
}

/// Finished results that have not been used.
// SAFETY: the lock protects all mutable state. Only one thread takes each result.
private final class Results<Output>: @unchecked Sendable {
  private let count: Int
  private let ahead: Int
  private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let change = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private var next = 0
  private var used = 0
  private var ready: [Int: Output] = [:]

  init(count: Int, ahead: Int) {
    (self.count, self.ahead) = (count, ahead)
    pthread_mutex_init(lock, nil)
    pthread_cond_init(change, nil)
  }

  deinit {
    pthread_cond_destroy(change)
    pthread_mutex_destroy(lock)
    change.deallocate()
    lock.deallocate()
  }

  private func withLock<Value>(_ body: () -> Value) -> Value {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return body()
  }

  /// Returns the index of the next input. Blocks while this index is too far ahead of the used results.
  func claim() -> Int? {
    withLock {
      while next < count, next >= used + ahead { pthread_cond_wait(change, lock) }
      guard next < count else { return nil }
      defer { next += 1 }
      return next
    }
  }

  func put(_ output: Output, _ number: Int) {
    withLock {
      ready[number] = output
      pthread_cond_broadcast(change)
    }
  }

  func take(_ number: Int) -> Output {
    withLock {
      while true {
        if let output = ready.removeValue(forKey: number) {
          used += 1
          pthread_cond_broadcast(change)
          return output
        }
        pthread_cond_wait(change, lock)
      }
    }
  }
}
