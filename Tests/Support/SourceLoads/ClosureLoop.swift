import CCulpritObserver
import Dispatch
import Glibc
import Programs
import Synchronization

/// A minimal event loop that runs closures on a dedicated thread. It is also a serial executor.
package final class ClosureLoop: SerialExecutor {
  private struct State {
    var waiting: [@Sendable () -> Void] = []
    var isStopping = false
  }

  private let state = Mutex(State())
  private let signal = DispatchSemaphore(value: 0)
  private let hasEnded = DispatchSemaphore(value: 0)

  /// Starts the loop.
  package init() {
    pthread_detach(startThread { [self] in run() })
  }

  /// Runs `body` on the loop's thread, after everything enqueued before.
  package func execute(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.waiting.append(body) }
    signal.signal()
  }

  /// Runs `body` on the loop's thread and waits for its end.
  package func wait(for body: @escaping @Sendable () -> Void) {
    let done = DispatchSemaphore(value: 0)
    execute {
      body()
      done.signal()
    }
    done.wait()
  }

  /// Runs `job` on the loop's thread, after everything enqueued before.
  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    execute { [self] in job.runSynchronously(on: asUnownedSerialExecutor()) }
  }

  /// Ends the loop after everything enqueued has run.
  package func stop() {
    state.withLock { $0.isStopping = true }
    signal.signal()
    hasEnded.wait()
  }

  private func run() {
    while true {
      signal.wait()
      let (next, isStopping) = state.withLock { state in
        (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isStopping)
      }
      if let next {
        next()
      } else if isStopping {
        hasEnded.signal()
        return
      }
    }
  }
}
