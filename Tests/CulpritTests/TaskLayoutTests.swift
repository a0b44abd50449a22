import CCulpritLinux
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.usesObserver) struct TaskLayoutTests {
  init() { _ = clinux_memory_start() }

  private func layout(_ search: TaskLayoutSearch) async -> TaskLayout? {
    for _ in 0..<20 where search.found == nil && !search.hasFailed {
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { search.observeCurrentTask() } }
      }
    }
    return search.found
  }

  @Test func findsTasksOfThreads() async throws {
    let search = TaskLayoutSearch()
    let layout = try #require(await layout(search))
    #expect(layout.task != layout.tracking)
    var threads = TaskThreads()
    let running = threads.running(layout)
    let own = try #require(running.first { $0.threadID == clinux_task_self() })
    #expect(own.task == withUnsafeCurrentTask { task in task.map { unsafeBitCast($0, to: UInt64.self) } })
    #expect(Set(running.map(\.task)).count == running.count)
  }

  @Test func distinguishesPoolThreads() async throws {
    let layout = try #require(await layout(TaskLayoutSearch()))
    @Sendable func isPool() -> Bool? {
      var threads = TaskThreads()
      return threads.running(layout).first { $0.threadID == clinux_task_self() }?.tracking.isPool
    }
    actor Plain { func ask<T: Sendable>(_ body: @Sendable () -> T) -> T { body() } }
    #expect(await Task.detached { isPool() }.value == true)
    #expect(await Plain().ask { isPool() } == true)
    #expect(await Task { @MainActor in isPool() }.value == false)
    let found = Synchronization.Mutex<Bool?>(true)
    #expect(try PosixThread(name: "no-task") { found.withLock { $0 = isPool() } }.join(until: .max))
    #expect(found.withLock { $0 } == nil)
  }

  @Test func failsInMemoryWithoutTasks() async {
    let search = TaskLayoutSearch(in: 0..<64)
    search.observeCurrentTask()
    #expect(search.found == nil && search.hasFailed)
  }

  @Test func ignoresThreadsWithoutTask() throws {
    let search = TaskLayoutSearch()
    #expect(!search.hasFailed)
    #expect(try PosixThread(name: "no-task") { search.observeCurrentTask() }.join(until: .max))
    #expect(search.found == nil)
  }
}
