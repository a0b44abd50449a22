import Culprit
import Dispatch
import Foundation
import Glibc
import Synchronization

private typealias Answer = CheckedContinuation<Void, Never>

/// Sections whose task waits for other work, named after the mechanism that starts this work.
let bridgeScenarios: [String: @Sendable () -> Void] = [
  "bridge-task": { requestAnswer { answer in Task { answerLater(answer) } } },
  "bridge-nested-task": { requestAnswer { answer in Task { Task { answerLater(answer) } } } },
  "bridge-child": {
    requestAnswer { answer in
      Task {
        async let done: Void = answerLater(answer)
        await done
      }
    }
  },
  "bridge-group": {
    requestAnswer { answer in
      Task { await withTaskGroup(of: Void.self) { group in group.addTask { answerLater(answer) } } }
    }
  },
  "bridge-actor": { requestAnswer { answer in Task { await Desk.shared.answer(answer) } } },
  "bridge-inner-section": {
    inSection {
      await watchdog.withSection("inner", threshold: .seconds(60)) {
        await withCheckedContinuation { answer in _ = Task { answerLater(answer) } }
      }
    }
  },
  "bridge-group-body": {
    inTask {
      await withTaskGroup(of: Void.self) { group in
        await watchdog.withSection("request", threshold: .milliseconds(500)) {
          group.addTask { rebuildIndex() }
          await group.waitForAll()
        }
      }
    }
  },
  "bridge-detached": { requestAnswer { answer in Task.detached { answerLater(answer) } } },
  "bridge-dispatch": { requestAnswer { answer in DispatchQueue.global().async { answerLater(answer) } } },
  "bridge-thread": { requestAnswer { answer in Thread.detachNewThread { answerLater(answer) } } },
  // A child task that is not awaited is not the cause of the wait.
  "bridge-other-child": {
    inSection {
      async let other: Void = computeBeside()
      await withCheckedContinuation { answer in
        Thread.detachNewThread {
          usleep(2_000_000)
          answer.resume()
        }
      }
      await other
    }
  },
  "bridge-other-grandchild": {
    inSection {
      await Task {
        async let other: Void = computeBeside()
        await withCheckedContinuation { answer in
          Thread.detachNewThread {
            usleep(2_000_000)
            answer.resume()
          }
        }
        await other
      }.value
    }
  },
  "bridge-function": { inSection { await awaitCourier() } },
  "bridge-sleep": {
    inSection {
      Task { computeBeside() }
      try? await Task.sleep(for: .seconds(2))
    }
  },
  "bridge-nanosleep": {
    inSection {
      Task { computeBeside() }
      try? await Task.sleep(nanoseconds: 2_000_000_000)
    }
  },
  "bridge-pool": { exhaustPool() },
  // The label links the section to a turn of a loop.
  "bridge-label": {
    inTask {
      await Watchdog.withLabel("request 4711") {
        await watchdog.withSection("request", threshold: .milliseconds(500)) {
          await withCheckedContinuation { answer in Thread.detachNewThread { answerInATurn(answer) } }
        }
      }
    }
  },
]

/// A pool of one connection.
private actor Pool {
  static let shared = Pool()

  private var isTaken = false
  private var waiting: [Answer] = []

  func lease() async {
    if isTaken { await withCheckedContinuation { waiting.append($0) } }
    isTaken = true
  }

  func release() {
    isTaken = false
    if !waiting.isEmpty { waiting.removeFirst().resume() }
  }
}

@inline(never) private func awaitConnection() async {
  await Pool.shared.lease()
  await Pool.shared.release()
}

/// Holds the only connection in a request, while two other requests wait for it.
private func exhaustPool() {
  inTask {
    await withTaskGroup(of: Void.self) { requests in
      await Pool.shared.lease()
      requests.addTask {
        await watchdog.withRequest(label: "GET /report", threshold: .seconds(16)) {
          try? await Task.sleep(for: .seconds(3))
          await Pool.shared.release()
        }
      }
      for number in 1...2 {
        requests.addTask {
          await watchdog.withRequest(label: "GET /orders/\(number)", threshold: .milliseconds(500)) {
            await awaitConnection()
          }
        }
      }
    }
  }
}

private func inTask(_ body: @escaping @Sendable () async -> Void) {
  let isDone = DispatchSemaphore(value: 0)
  Task.detached {
    await body()
    isDone.signal()
  }
  answerRequest { isDone.wait() }
}

private func inSection(_ body: @escaping @Sendable () async -> Void) {
  inTask { await watchdog.withSection("request", threshold: .milliseconds(500)) { await body() } }
}

/// Starts work by `handOn` in a section, and awaits its answer.
private func requestAnswer(_ handOn: @escaping @Sendable (Answer) -> Void) {
  inTask {
    await watchdog.withSection("request", threshold: .milliseconds(500)) {
      await withCheckedContinuation { answer in handOn(answer) }
    }
  }
}

private func answerLater(_ answer: Answer) {
  rebuildIndex()
  answer.resume()
}

private func answerInATurn(_ answer: Answer) {
  do {
    let loop = try watchdog.watchLoop(named: "answers")
    loop.withTurn(label: "request 4711") { rebuildIndex() }
  } catch {
    print(error)
  }
  answer.resume()
}

/// Computes for less time than the concurrent wait.
@inline(never) private func computeBeside() {
  let end = DispatchTime.now() + .milliseconds(1200)
  while DispatchTime.now() < end { kept.add(1, ordering: .relaxed) }
}

private actor Desk {
  static let shared = Desk()

  func answer(_ answer: Answer) { answerLater(answer) }
}

@inline(never) private func awaitCourier() async {
  await withCheckedContinuation { answer in Thread.detachNewThread { answerLater(answer) } }
  kept.add(1, ordering: .relaxed)
}
