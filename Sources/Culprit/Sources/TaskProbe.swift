import CCulpritObserver
import Synchronization

/// Determines the layout of tasks in Swift's runtime with test tasks, once a process.
///
/// Samplers use the layout to find the awaiting callers of a running task and the state of a suspended one.
final class TaskProbe: Sendable {
  static let shared = TaskProbe()

  private struct State {
    /// `nil` while the search continues.
    var isKnown: Bool?
    var layout: Layout?
  }

  struct Layout: @unchecked Sendable {
    // SAFETY: the fields are numbers and do not change after publication.
    var value: observer_task_layout

    /// The layout without task-local values, so samplers read no labels.
    var withoutLabels: Layout {
      var layout = self
      layout.value.locals = 0
      return layout
    }
  }

  let search = TaskLayoutSearch()
  private let state = Mutex(State())
  private let hasBegun = Atomic(false)
  private let isFound = Atomic(false)

  var layout: Layout? { state.withLock { $0.layout } }

  var hasFound: Bool { isFound.load(ordering: .acquiring) }

  var hasFailed: Bool { state.withLock { $0.isKnown == false } }

  func start() {
    guard !hasBegun.load(ordering: .relaxed), !hasBegun.exchange(true, ordering: .relaxed) else { return }
    Task.detached(priority: .high) { [self] in
      var layout = await findOut()
      // On a busy machine, test tasks might miss the expected states.
      for _ in 0..<Self.attemptsMore where layout == nil && !search.hasFailed {
        try? await Task.sleep(for: .milliseconds(200))
        layout = await findOut()
      }
      if var value = layout?.value { observer_swift_task_know(&value) }
      state.withLock { state in (state.isKnown, state.layout) = (layout != nil, layout) }
      isFound.store(layout != nil, ordering: .releasing)
    }
  }

  /// Does nothing outside tasks, so a process without tasks stays without.
  func startInTask() {
    guard !hasBegun.load(ordering: .relaxed), Self.current != 0 else { return }
    start()
  }

  private final class Clues: Sendable {
    private let seen = Mutex<observer_task_clues?>(nil)

    var all: observer_task_clues? { seen.withLock { $0 } }

    func add(_ new: observer_task_clues, isChild: Bool) {
      seen.withLock { seen in
        guard var all = seen else {
          seen = new
          return
        }
        all.allocation &= new.allocation
        all.status &= new.status
        // Child tasks inherit task-local values from their parents.
        if !isChild { all.locals &= new.locals }
        if isChild { all.parent = all.parent == 0 ? new.parent : all.parent & new.parent }
        if all.kind != new.kind { all.kind = 0 }
        if all.runner != new.runner { all.runner = 0 }
        seen = all
      }
    }
  }

  private static let attemptsMore = 10
  /// Number of rounds that suffices for ``search``.
  private static let rounds = 8

  private func findOut() async -> Layout? {
    let clues = Clues()
    let parent = Self.current
    for round in 0..<Self.rounds where !search.hasFailed {
      search.observeCurrentTask()
      await TaskLabel.$current.withValue(Self.label) {
        await Self.descend(2 + round % 3, of: 2 + round % 3, nil, clues)
      }
    }
    async let child: Bool = Self.runAsChild(of: parent, 3, clues)
    _ = await child
    await withTaskGroup(of: Bool.self) { group in
      group.addTask { await Self.runAsChild(of: parent, 4, clues) }
      await group.waitForAll()
    }
    guard let all = clues.all, let place = search.found, let allocation = Self.only(all.allocation),
      let status = Self.only(all.status), let isChild = Self.only(all.parent), all.kind != 0, all.runner != 0
    else { return nil }
    let locals = Self.only(all.locals) ?? 0
    var layout = Layout(
      value: observer_task_layout(
        task: place.task,
        tracking: place.tracking,
        allocation: allocation,
        status: status,
        parent: isChild,
        kind: all.kind,
        runner: all.runner,
        locals: locals,
        label_key: TaskLabel.key,
        mark_key: SectionMark.key,
        yield: 0,
        sleeps: (0, 0)
      )
    )
    guard await Self.isTrue(layout) else { return nil }
    layout.value.yield = await Self.resumption(layout) { await Task.yield() }
    layout.value.sleeps.0 = await Self.resumption(layout) { try? await Task.sleep(nanoseconds: 1_000_000) }
    layout.value.sleeps.1 = await Self.resumption(layout) { try? await Task.sleep(for: .milliseconds(1)) }
    return await Self.hasLabels(layout) ? layout : layout.withoutLabels
  }

  private static let label = TaskLabel("culprit-probe")

  private static func hasLabels(_ layout: Layout) async -> Bool {
    @Sendable func isFound() -> Bool {
      var (value, found) = (layout.value, observer_label())
      observer_swift_task_label(&value, current, &found)
      return found.bytes > 0 && found.string == label.label.string
    }
    guard !isFound() else { return false }
    return await TaskLabel.$current.withValue(label) {
      async let isChilds = isFound()
      return await isChilds && isFound()
    }
  }

  private static func only(_ words: UInt64) -> UInt32? {
    words.nonzeroBitCount == 1 ? UInt32(words.trailingZeroBitCount) : nil
  }

  /// The address of the current task; 0 outside tasks.
  static var current: UInt64 {
    withUnsafeCurrentTask { task in
      guard let task, MemoryLayout<UnsafeCurrentTask>.size == MemoryLayout<UInt64>.size else { return 0 }
      // SAFETY: the sizes are equal, as checked above. The value is the reference to the task and is only compared or
      // read as memory.
      return unsafeBitCast(task, to: UInt64.self)
    }
  }

  private static let depth = Atomic(0)

  @inline(never)
  private static func descend(_ levels: Int, of all: Int, _ parent: UInt64?, _ clues: Clues) async {
    guard levels == 0 else {
      await descend(levels - 1, of: all, parent, clues)
      // Work after the call prevents a tail call, which would remove this frame from the chain of callers.
      depth.add(1, ordering: .relaxed)
      return
    }
    var seen = observer_task_clues()
    observer_swift_task_observe(current, Task.currentPriority.rawValue, UInt32(all), parent ?? 0, TaskLabel.key, &seen)
    clues.add(seen, isChild: parent != nil)
  }

  @inline(never)
  private static func runAsChild(of parent: UInt64, _ levels: Int, _ clues: Clues) async -> Bool {
    await descend(levels, of: levels, parent, clues)
    return true
  }

  /// Consecutive equal samples that confirm a resume function.
  private static let resumptions = 4

  /// Returns the function in which tasks resume after `wait`; 0 if it was not found.
  private static func resumption(_ layout: Layout, after wait: () async -> Void) async -> UInt64 {
    let waiting = current
    let isDone = Atomic(false)
    @Sendable func observe() async -> UInt64 {
      defer { isDone.store(true, ordering: .relaxed) }
      var (value, found, count) = (layout.value, UInt64(0), 0)
      for round in 1...1000 {
        let place = observer_swift_task_resumes(&value, waiting)
        if place != 0 {
          count = place == found ? count + 1 : 1
          found = place
          if count == resumptions { return found }
        }
        // `yield` lets the waiting task run if the pool has one thread. The sleep gives that task time to get a CPU
        // before the last sample.
        if round.isMultiple(of: 10) { try? await Task.sleep(for: .milliseconds(1)) } else { await Task.yield() }
      }
      return 0
    }
    async let found = observe()
    // Until `isDone`, this task suspends only in `wait`.
    while !isDone.load(ordering: .relaxed) { await wait() }
    return await found
  }

  private static func isTrue(_ layout: Layout) async -> Bool {
    let waiting = current
    @Sendable func observe() async -> Bool {
      var value = layout.value
      for _ in 0..<1000 {
        guard observer_swift_task_state(&value, current) == OBSERVER_TASK_RUNNING else { return false }
        if observer_swift_task_state(&value, waiting) == OBSERVER_TASK_SUSPENDED { return true }
        try? await Task.sleep(for: .milliseconds(1))
      }
      return false
    }
    async let isSeen = observe()
    return await isSeen
  }
}
