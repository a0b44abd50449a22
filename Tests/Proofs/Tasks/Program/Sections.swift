import Culprit
import Foundation
import Judges
import Programs
import SplitMix
import Synchronization

/// Stalls of sections that suspend. The culprit has returned when the threshold passes, or runs in another task.
struct Sections {
  enum Taking: CaseIterable {
    case computing, lock, sleeping, child, continuation, value, stranger, bridge

    var function: String {
      switch self {
      case .computing: "computeForLong(_:)"
      case .lock: "waitForTheLock(_:)"
      case .sleeping: "sleepOnTheThread(_:)"
      case .child: "workAsAChild(_:)"
      case .continuation: "awaitAnAnswer(_:)"
      case .value, .stranger, .bridge: "workForAnother(_:)"
      }
    }
  }

  private static let threshold = 600

  private var random: SplitMix

  init(seed: UInt64) { random = SplitMix(seed) }

  mutating func run(_ count: Int) async throws {
    var reports = try await TaskReports()
    let watchdog = reports.watchdog
    var named = 0
    var (done, attempts) = (0, 0)
    while done < count, attempts < 5 * count {
      attempts += 1
      let number = done
      let taking = Taking.allCases[number % Taking.allCases.count]
      let time = Int.random(in: 480...560, using: &random)
      let isSecondAsleep = Bool.random(using: &random)
      await Task.detached {
        await Watchdog.withLabel("request \(number)") {
          await watchdog.withSection("request", threshold: .milliseconds(Self.threshold)) {
            let begin = ContinuousClock.now
            await handle(taking, time)
            handlingTime.withLock { $0 = .now - begin }
            if isSecondAsleep { finishBySleeping(220) } else { finishByComputing(220) }
          }
        }
      }.value
      guard let report = await reports.next() else { break }
      // On a busy machine, the work after `handle` can take longer and become the culprit. Such trials are not judged.
      guard handlingTime.withLock({ $0 }) > report.duration * 0.6 else { continue }
      done += 1
      let judged = TaskJudgement.Section(
        report,
        function: taking.function,
        caller: "handle(_:_:)",
        label: "request \(number)"
      )
      named += judged.isRight ? 1 : 0
      if !judged.isRight {
        say(
          "trial=\(number) \(taking) \(time) ms: \(report.culprit?.function.name ?? "none") \(report.culprit?.share ?? 0) of "
            + "\(report.duration), caller \(judged.hasCaller), unlabelled \(judged.unlabelled) of \(report.samples.count), "
            + "\(report.evidence.noStack.map(\.reason.code))"
        )
      }
    }
    say("trials=\(done)\nnamed=\(named)\nlimitations=\(watchdog.status.limitations.map(\.code))")
    await watchdog.stop(patience: .seconds(60))
  }
}

/// The duration of `handle` in the last section.
private let handlingTime = Mutex(Duration.zero)

@inline(never)
private func handle(_ taking: Sections.Taking, _ milliseconds: Int) async {
  // The task can resume on another thread.
  await Task.yield()
  switch taking {
  case .computing: computeForLong(milliseconds)
  case .lock: waitForTheLock(milliseconds)
  case .sleeping: sleepOnTheThread(milliseconds)
  case .child: await awaitAChild(milliseconds)
  case .continuation: await awaitAnAnswer(milliseconds)
  case .value: await awaitAValue(milliseconds)
  case .stranger: await awaitAStranger(milliseconds)
  case .bridge: await awaitABridge(milliseconds)
  }
  await Task.yield()
}

@inline(never)
private func computeForLong(_ milliseconds: Int) {
  let end = DispatchTime.now() + .milliseconds(milliseconds)
  while DispatchTime.now() < end {}
}

@inline(never)
private func sleepOnTheThread(_ milliseconds: Int) {
  usleep(UInt32(milliseconds) * 1000)
  // Keeps the call above from becoming a jump without a frame.
  slept.add(1, ordering: .relaxed)
}

private let slept = Atomic(0)

@inline(never)
private func waitForTheLock(_ milliseconds: Int) {
  let lock = NSLock()
  let isHeld = DispatchSemaphore(value: 0)
  Thread.detachNewThread {
    lock.lock()
    isHeld.signal()
    usleep(UInt32(milliseconds) * 1000)
    lock.unlock()
  }
  isHeld.wait()
  lock.lock()
  lock.unlock()
}

@inline(never)
private func awaitAChild(_ milliseconds: Int) async {
  async let done: Void = workAsAChild(milliseconds)
  await done
}

@inline(never)
private func workAsAChild(_ milliseconds: Int) async {
  await Task.yield()
  let end = DispatchTime.now() + .milliseconds(milliseconds)
  while DispatchTime.now() < end {}
}

/// Waits for an unstructured task, which inherits the task-local label.
@inline(never)
private func awaitAValue(_ milliseconds: Int) async {
  let work = Task { await workForAnother(milliseconds) }
  await work.value
}

/// Waits for a detached task, which has no label. The report names the label of the waiting task.
@inline(never)
private func awaitAStranger(_ milliseconds: Int) async {
  let work = Task.detached { await workForAnother(milliseconds) }
  await work.value
}

/// Waits for a continuation that an unstructured task resumes.
@inline(never)
private func awaitABridge(_ milliseconds: Int) async {
  await withCheckedContinuation { (answer: CheckedContinuation<Void, Never>) in
    Task {
      await workForAnother(milliseconds)
      answer.resume()
    }
  }
}

@inline(never)
private func workForAnother(_ milliseconds: Int) async {
  await Task.yield()
  usleep(UInt32(milliseconds) * 1000)
  await Task.yield()
}

/// Waits for an answer of an unobserved thread.
@inline(never)
private func awaitAnAnswer(_ milliseconds: Int) async {
  await withCheckedContinuation { (answer: CheckedContinuation<Void, Never>) in
    Thread.detachNewThread {
      usleep(UInt32(milliseconds) * 1000)
      answer.resume()
    }
  }
}
