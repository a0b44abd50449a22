import CCulpritObserver
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

/// The stacks of all threads of this process, at about the same time.
public struct ThreadsReport: Sendable, CustomStringConvertible {
  /// The threads, in the order in which the kernel lists them; their stacks are indices into ``stacks``.
  public let all: AllThreads
  /// The distinct stacks.
  public let stacks: [Stack]
  /// The threads by what they were doing, the largest group first.
  public let groups: [ThreadGroup]
  private let width: Int

  init(_ all: AllThreads, stacks: [Stack], _ settings: ReportSettings) {
    self.all = all
    self.stacks = stacks
    width = settings.width
    var modules = ModuleList()
    modules.load()
    for stack in stacks { modules.cover(stack) }
    let symbolizer = settings.symbolizer(of: Recording(process: nil, modules: modules.all))
    groups = ThreadGroup.groups(of: all, stacks: stacks, rules: settings.rules, resolve: symbolizer.resolve)
  }

  /// The threads as text, in lines as long as the configuration says.
  public var description: String { text(width: width) }

  /// The threads as text, in lines of at most `width` characters.
  public func text(width: Int) -> String {
    ThreadsText(all, groups: groups, architecture: String(cString: observer_machine_name())).text(width: width)
  }
}
