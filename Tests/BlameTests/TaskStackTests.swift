import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritBlame

@Suite struct TaskStackTests {
  private func frame(_ address: UInt64, _ kind: FrameKind) -> StackFrame { StackFrame(RuntimeAddress(address), kind) }

  private func stack(_ frames: [(UInt64, FrameKind)], end: StackEnd = .outermost) -> Stack {
    Stack(frames: frames.map { frame($0, $1) }, end: end)
  }

  /// Addresses 1 to 9 begin parts of async functions, and 11 to 19 are inside these parts. 20 has no name, 30 is C++,
  /// 40 is compiler-generated.
  private func resolve(_ frame: StackFrame) -> [ResolvedFrame] {
    let number = frame.address.value
    let name: String? =
      switch number {
      case 1...19: "$s4shop1f\(number % 10)yyYaFT\(number % 2 == 0 ? "Q" : "Y")\(number % 10)_"
      case 20: nil
      case 30: "_ZN5swift3runEv"
      default: "$s4shopTR\(number)TQ0_"
      }
    return [
      ResolvedFrame(
        function: name.map { _ in "f\(number)" },
        rawName: name,
        kind: number == 40 ? .thunk : .function,
        module: "/opt/shop/shop",
        start: FileAddress((11...19).contains(number) ? number - 10 : number),
        address: .file(FileAddress(number))
      )
    ]
  }

  private let inner: [(UInt64, FrameKind)] = [(100, .programCounter), (101, .returnAddress)]
  private let outer: [(UInt64, FrameKind)] = [(102, .returnAddress), (103, .returnAddress)]

  @Test(arguments: [StackEnd.outermost, .noUnwindInformation])
  func replacesExecutorFramesWithAsyncCallers(end: StackEnd) {
    let found = TaskStack(stack(inner + [(2, .asyncCaller), (3, .asyncCaller), (9, .taskStart)] + outer, end: end))
    #expect(found.called.map(\.address.value) == [100, 101] && found.end == .outermost && found.kind == .task)
    let frames = found.resolve(resolve)
    #expect(frames.map(\.address.value) == [100, 101, 2, 3] && frames.map(\.isAwaiting) == [false, false, true, true])
  }

  @Test func appendsParentTaskAfterChild() {
    let found = TaskStack(
      stack(inner + [(2, .asyncCaller), (8, .childStart), (3, .asyncCaller), (9, .taskStart)] + outer)
    )
    #expect(found.resolve(resolve).map(\.address.value) == [100, 101, 2, 3] && found.end == .outermost)
  }

  @Test(arguments: [
    ([(2, FrameKind.asyncCaller), (8, .childStart)], StackEnd.childTask),
    ([(77, .taskLost)], .taskLost),
    ([(2, .asyncCaller)], .frameLimit),
  ]) func reportsMissingPartOfTask(of task: [(UInt64, FrameKind)], as end: StackEnd) {
    let found = TaskStack(stack(inner + task + outer))
    #expect(found.end == end && found.kind == .task)
  }

  @Test func dropsInvalidAsyncCallers() {
    let found = TaskStack(stack(inner + [2, 13, 20, 30, 40, 5].map { ($0, .asyncCaller) } + [(9, .taskStart)] + outer))
    let (frames, unknown) = found.namesOfAwaiting(resolve)
    #expect(frames.flatMap(\.names).map(\.address.value) == [2, 5] && unknown == 1)
  }

  @Test(arguments: [(StackEnd.outermost, TaskStack.Kind.thread), (.copyLimit, .unknown)])
  func keepsStackOfPlainThread(end: StackEnd, kind: TaskStack.Kind) {
    let found = TaskStack(stack(inner + outer, end: end))
    #expect(found.called.count == 4 && found.awaiting.isEmpty && found.end == end && found.kind == kind)
    #expect(found.resolve(resolve).allSatisfy { !$0.isAwaiting })
  }

  @Test func excludesStacksAfterJob() {
    let stacks = [
      stack(inner + [(2, .asyncCaller), (9, .taskStart)] + outer), stack(outer), stack(outer, end: .copyLimit),
    ]
    func observations(_ kind: SourceKind) -> Observations {
      var stall = Stall("pool thread 1", kind: kind, thread: (7, "worker"))
      stall.duration = .seconds(4)
      stall.samples = [0, 0, 1, 2].enumerated().map { place, stack in
        Sample(age: .seconds(place), stack: stack, outcome: .captured, cpuTime: nil)
      }
      return Observations(stall: stall, stacks: stacks, resolve: resolve)
    }
    #expect(observations(.job).stacks.count == 3 && observations(.pool).stacks.count == 3)
    #expect(observations(.loop).stacks.count == 4)
  }
}
