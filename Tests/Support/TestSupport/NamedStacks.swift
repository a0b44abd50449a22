import CulpritStallRecord
import CulpritSymbols
import Foundation

package struct NamedSample: Equatable, Sendable {
  package var sample: Sample
  /// The names of the functions in reports, innermost first; "?" without a name.
  package var names: [String]
  /// The reason for the end of the stack.
  package var end: StackEnd

  /// Whether the functions `expected` are on the stack in this order, innermost first.
  package func shows(_ expected: [String]) -> Bool {
    var rest = expected[...]
    for name in names where name == rest.first { rest = rest.dropFirst() }
    return rest.isEmpty
  }
}

package struct NamedStall: Sendable {
  package var stall: Stall
  package var samples: [NamedSample]

  package static func all(of recording: Recording) -> [NamedStall] {
    let symbolizer = Symbolizer(modules: recording.modules)
    return recording.stalls.map { stall in
      NamedStall(
        stall: stall,
        samples: stall.samples.map { sample in
          let stack = sample.stack.map { recording.stacks[$0] } ?? Stack(frames: [], end: .notCaptured)
          let names = stack.frames.map { symbolizer.resolve($0).first?.function ?? "?" }
          return NamedSample(sample: sample, names: names, end: stack.end)
        }
      )
    }
  }
}

package func namedStalls(in directory: String) throws -> [NamedStall] {
  try fileNames(in: directory, ".stall").flatMap { name in
    let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)"))
    return NamedStall.all(of: try StallFile(bytes: [UInt8](bytes)).recording)
  }
}
