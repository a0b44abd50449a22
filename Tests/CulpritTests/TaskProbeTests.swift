import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.usesObserver, .serialized) struct TaskProbeTests {
  init() { _ = clinux_memory_start() }

  private func state(of task: UInt64, _ layout: TaskProbe.Layout) -> observer_task_state {
    var value = layout.value
    return observer_swift_task_state(&value, task)
  }

  @Test func reportsStateOfTasks() async throws {
    let layout = try await TaskProbe.knownLayout()
    #expect(state(of: TaskProbe.current, layout) == OBSERVER_TASK_RUNNING)
    final class Place: Sendable { let address = Mutex<UInt64>(0) }
    let place = Place()
    let task = Task.detached {
      place.address.withLock { $0 = TaskProbe.current }
      try? await Task.sleep(for: .seconds(3600))
    }
    func found() -> UInt64 { place.address.withLock { $0 } }
    while found() == 0 || state(of: found(), layout) != OBSERVER_TASK_SUSPENDED {
      try await Task.sleep(for: .milliseconds(1))
    }
    task.cancel()
    await task.value
    #expect(state(of: found(), layout) != OBSERVER_TASK_RUNNING)
    withExtendedLifetime(task) {}
  }

  @Test func yieldingTasksAreReady() async throws {
    let layout = try await TaskProbe.knownLayout()
    #expect(layout.value.yield != 0)
    let address = Atomic<UInt64>(0)
    let isDone = Atomic(false)
    let task = Task.detached {
      address.store(TaskProbe.current, ordering: .relaxed)
      while !isDone.load(ordering: .relaxed) { await Task.yield() }
    }
    while address.load(ordering: .relaxed) == 0 { try await Task.sleep(for: .milliseconds(1)) }
    var (ready, suspended) = (0, 0)
    while ready < 100 && suspended == 0 {
      switch state(of: address.load(ordering: .relaxed), layout) {
      case OBSERVER_TASK_ENQUEUED: ready += 1
      case OBSERVER_TASK_SUSPENDED: suspended += 1
      default: break
      }
      if ready < 100 { await Task.yield() }
    }
    #expect(suspended == 0)
    isDone.store(true, ordering: .relaxed)
    await task.value
  }

  @Test func ignoresMemoryWithoutTask() async throws {
    let layout = try await TaskProbe.knownLayout()
    let words = [UInt64](repeating: 1, count: 64)
    #expect(state(of: 0, layout) == OBSERVER_TASK_UNKNOWN && state(of: 8, layout) == OBSERVER_TASK_UNKNOWN)
    words.withUnsafeBytes {
      #expect(state(of: UInt64(UInt(bitPattern: $0.baseAddress)), layout) == OBSERVER_TASK_UNKNOWN)
    }
  }

  @Test func marksStacksOfResumedTasks() async throws {
    let layout = try await TaskProbe.knownLayout()
    let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
    defer { frames.deallocate() }
    var stack = unwind_stack()
    (stack.frames, stack.count) = (frames, 2)
    var copy = stack_copy()
    func kinds(_ task: UInt64, allocation: UInt64) -> [UInt32] {
      stack.count = 3
      frames[0] = unwind_frame(address: 0x1000, kind: UNWIND_PROGRAM_COUNTER.rawValue, offset: 0)
      frames[1] = unwind_frame(address: layout.value.runner + 16, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: 16)
      frames[2] = unwind_frame(address: 0x2000, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: 0)
      (copy.task, copy.task_allocation) = (task, allocation)
      _ = observer_swift_task_callers(&copy, &stack)
      return (0..<Int(stack.count)).map { frames[$0].kind }
    }
    var here = stack_copy()
    observer_swift_task_note(&here)
    #expect(here.task == TaskProbe.current)
    let found = kinds(here.task, allocation: here.task_allocation)
    #expect(found.count > 3 && found.first == 0 && found.suffix(2) == [1, 1])
    #expect(
      found.dropFirst().dropLast(2).allSatisfy { $0 >= UNWIND_ASYNC_CALLER.rawValue && $0 < UNWIND_TASK_LOST.rawValue }
    )
    let lost = [0, UNWIND_TASK_LOST.rawValue, 1, 1]
    #expect(kinds(here.task, allocation: here.task_allocation + 16) == lost)
    #expect(kinds(8, allocation: 16) == lost)
    #expect(kinds(0, allocation: 0) == [0, 1, 1])
  }

  @Test func keepsOutermostFramesOfFullStacks() async throws {
    let layout = try await TaskProbe.knownLayout()
    let count = Int(UNWIND_FRAMES_MAX)
    let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: count)
    defer { frames.deallocate() }
    for place in 0..<count {
      frames[place] = unwind_frame(address: 0x1000, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: 0)
    }
    frames[300] = unwind_frame(address: layout.value.runner + 16, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: 16)
    var stack = unwind_stack()
    (stack.frames, stack.count) = (frames, UInt32(count))
    var copy = stack_copy()
    observer_swift_task_note(&copy)
    _ = observer_swift_task_callers(&copy, &stack)
    #expect(stack.count == count && frames[300].offset == 16)
  }

  @Test(arguments: [(50, true), (600, false)]) func truncatesLongChains(depth: Int, isWhole: Bool) async throws {
    _ = try await TaskProbe.knownLayout()
    final class Place: Sendable { let task = Mutex<FollowedTask?>(nil) }
    let place = Place()
    @Sendable func descend(_ levels: Int) async -> Int {
      guard levels == 0 else { return await descend(levels - 1) + 1 }
      place.task.withLock { $0 = FollowedTask.current }
      try? await Task.sleep(for: .seconds(3600))
      return 0
    }
    let task = Task.detached {
      async let child = descend(depth)
      return await child
    }
    func found() -> TaskReference? { place.task.withLock { $0?.whereabouts } }
    while found()?.state != .isSuspended { try await Task.sleep(for: .milliseconds(1)) }
    let frames = try #require(found()?.frames)
    #expect(frames.contains { $0.kind == .childStart } == isWhole && (frames.last?.kind == .taskStart) == isWhole)
    #expect(frames.count { $0.kind == .asyncCaller } >= min(depth, 300))
    task.cancel()
    #expect(await task.value == depth)
  }

  /// A stack read while the child ends must not show the child without its parent.
  @Test func keepsParentOfEndingChild() async throws {
    let layout = try await TaskProbe.knownLayout()
    let race = Race()
    let reader = Thread { race.readStacks(runner: layout.value.runner, whole: 2000) }
    reader.start()
    await race.run()
    let (unknown, without) = race.others.withLock { $0 }
    #expect(without == 0, "\(unknown) stacks with an unknown parent")
  }
}

extension TaskProbe {
  static func knownLayout() async throws -> Layout {
    shared.start()
    while shared.layout == nil && !shared.hasFailed { try await Task.sleep(for: .milliseconds(1)) }
    return try #require(shared.layout)
  }
}

private actor Race {
  /// Number of the parent's round. A stack counts only if it was read within one round.
  nonisolated let round = Atomic(0)
  nonisolated let isDone = Atomic(false)
  nonisolated let child = Mutex<(task: UInt64, allocation: UInt64)?>(nil)
  nonisolated let others = Mutex((unknown: 0, without: 0))

  func run() async {
    while !isDone.load(ordering: .sequentiallyConsistent) {
      async let end: Void = beThere()
      await end
      spin(UInt64.random(in: 0...300_000))
      child.withLock { $0 = nil }
      round.add(1, ordering: .sequentiallyConsistent)
    }
  }

  private nonisolated func beThere() async {
    // Waits for the parent to leave the actor.
    await pass()
    var copy = stack_copy()
    observer_swift_task_note(&copy)
    child.withLock { [copy] in $0 = (copy.task, copy.task_allocation) }
    spin(UInt64.random(in: 0...600_000))
  }

  private func pass() {}

  private nonisolated func spin(_ nanoseconds: UInt64) {
    let end = clinux_clock_ns() + nanoseconds
    while clinux_clock_ns() < end {}
  }

  nonisolated func readStacks(runner: UInt64, whole wanted: Int) {
    withUnsafeTemporaryAllocation(of: unwind_frame.self, capacity: Int(UNWIND_FRAMES_MAX)) { frames in
      var stack = unwind_stack()
      stack.frames = frames.baseAddress
      var whole = 0
      while whole < wanted {
        let before = round.load(ordering: .sequentiallyConsistent)
        guard let child = child.withLock({ $0 }) else { continue }
        frames[0] = unwind_frame(address: 0x1000, kind: UNWIND_PROGRAM_COUNTER.rawValue, offset: 0)
        frames[1] = unwind_frame(address: runner + 16, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: 16)
        stack.count = 2
        var copy = stack_copy()
        (copy.task, copy.task_allocation) = child
        _ = observer_swift_task_callers(&copy, &stack)
        guard round.load(ordering: .sequentiallyConsistent) == before else { continue }
        let kinds = frames.prefix(Int(stack.count)).map(\.kind)
        switch (kinds.contains(UNWIND_CHILD_START.rawValue), kinds.contains(UNWIND_TASK_START.rawValue)) {
        case (true, true): whole += 1
        case (false, true): others.withLock { $0.without += 1 }
        default: others.withLock { $0.unknown += 1 }
        }
      }
    }
    isDone.store(true, ordering: .sequentiallyConsistent)
  }
}
