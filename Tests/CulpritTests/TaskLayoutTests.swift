import CCulpritLinux
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// Where the runtime keeps the current task, and which threads run one.
@Suite(.usesObserver) struct TaskLayoutTests {
  init() { _ = clinux_memory_start() }

  /// Has tasks look until enough of them have.
  private func layout(_ search: TaskLayoutSearch) async -> TaskLayout? {
    for _ in 0..<20 where search.found == nil && !search.hasFailed {
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { search.lookAtCurrentTask() } }
      }
    }
    return search.found
  }

  @Test func tasksTellWhereTheyAreKept() async throws {
    let search = TaskLayoutSearch()
    let layout = try #require(await layout(search))
    #expect(layout.task != layout.tracking)
    // This thread runs this test's task.
    var threads = TaskThreads()
    let running = threads.running(layout)
    let own = try #require(running.first { $0.threadID == clinux_task_self() })
    #expect(own.task == withUnsafeCurrentTask { task in task.map { unsafeBitCast($0, to: UInt64.self) } })
    #expect(Set(running.map(\.task)).count == running.count)
  }

  /// On the pool's threads run tasks of no actor and of actors that have no executor; on others not.
  @Test func whatRunsATaskIsTold() async throws {
    let layout = try #require(await layout(TaskLayoutSearch()))
    @Sendable func isPool() -> Bool? {
      var threads = TaskThreads()
      return threads.running(layout).first { $0.threadID == clinux_task_self() }?.tracking.isPool
    }
    actor Plain { func ask<T: Sendable>(_ body: @Sendable () -> T) -> T { body() } }
    #expect(await Task.detached { isPool() }.value == true)
    #expect(await Plain().ask { isPool() } == true)
    #expect(await Task { @MainActor in isPool() }.value == false)
    // Nobody runs a task here.
    let found = Synchronization.Mutex<Bool?>(true)
    #expect(try PosixThread(name: "no-task") { found.withLock { $0 = isPool() } }.join(until: .max))
    #expect(found.withLock { $0 } == nil)
  }

  /// Where tasks are not kept there is nothing to be found, and that is known.
  @Test func whereTheyAreNotNothingIsFound() async {
    let search = TaskLayoutSearch(in: 0..<64)
    search.lookAtCurrentTask()
    #expect(search.found == nil && search.hasFailed)
  }

  /// Outside of a task nothing can be learned.
  @Test func aThreadWithoutATaskTellsNothing() throws {
    let search = TaskLayoutSearch()
    #expect(!search.hasFailed)
    #expect(try PosixThread(name: "no-task") { search.lookAtCurrentTask() }.join(until: .max))
    #expect(search.found == nil)
  }
}
