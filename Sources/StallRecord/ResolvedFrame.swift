package struct SourceLocation: Hashable, Sendable, CustomStringConvertible {
  package var file: String
  package var line: Int
  package var column: Int

  package init(file: String, line: Int, column: Int = 0) {
    self.file = file
    self.line = line
    self.column = column
  }

  package var description: String { "\(file):\(line)" }
}

package enum MissingNameReason: Hashable, Sendable {
  case notMapped
  case noFile
  case unreadableFile(String)
  /// The file has another build ID than the file that ran.
  case changedFile(expected: String, found: String)
  /// The file was deleted or replaced, and lacks a build ID for verifying the replacement.
  case unverifiable
  case noSymbols
  case noSymbolHere

  package var isOfFile: Bool { self == .noSymbols || self == .noSymbolHere }

  package var explanation: String {
    switch self {
    case .notMapped: "no module was mapped there"
    case .noFile: "the module is not a file"
    case .unreadableFile(let why): why
    case .changedFile(let expected, let found):
      "the file has changed since: its build-id is \(found), the one that ran had \(expected)"
    case .unverifiable: "the file was deleted, and without a build-id its replacement cannot be verified"
    case .noSymbols: "the file has no symbols"
    case .noSymbolHere: "the file has no symbol for this address"
    }
  }
}

package enum CodeOrigin: Hashable, Sendable {
  /// Unknown: the module has no debug information or no readable file.
  case unknown
  /// The module's debug information does not cover this code, which was compiled elsewhere, for example in an archive.
  case undescribed
  /// The code is part of this compilation unit.
  case unit(CompilationUnit)
}

/// A compilation unit: a source file or a Swift module.
package struct CompilationUnit: Hashable, Sendable {
  package var directory: String
  /// The source file (DW_AT_name), absolute or relative to ``directory``.
  package var file: String
  /// The Swift module of the unit; `nil` if unknown or not Swift.
  package var swiftModule: String?

  package init(directory: String, file: String, swiftModule: String? = nil) {
    self.directory = directory
    self.file = file
    self.swiftModule = swiftModule
  }

  package var path: String { file.hasPrefix("/") || directory.isEmpty ? file : directory + "/" + file }
}

package enum FunctionKind: Hashable, Sendable {
  /// A function from source code, or a copy or part of one.
  case function
  /// A thunk for a source function, such as a protocol witness or a closure's entry. The function's code is often
  /// inlined into the thunk.
  case thunk
  /// Code generated for a type: copying and destroying its values, its metadata.
  case glue
}

/// The function meant by a call of code that several functions share.
package struct CalledFunction: Hashable, Sendable {
  package var function: String
  package var fullName: String
  package var rawName: String
  package var swiftModule: String?
  /// The full name of the source function.
  package var sourceFunction: String?
  package var start: FileAddress

  package init(
    function: String,
    fullName: String,
    rawName: String,
    swiftModule: String?,
    sourceFunction: String?,
    start: FileAddress
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.start = start
  }
}

extension [ResolvedFrame] {
  /// Returns the frames of a stack, innermost first. Callers determine the names of merged functions.
  package func namingMergedFunctions() -> [ResolvedFrame] {
    guard contains(where: \.isMerged) else { return self }
    var frames = self
    for place in indices.dropLast() where frames[place].isMerged && !frames[place].isInlined {
      let isCallerHere = frames[place + 1].module == frames[place].module
      guard let called = frames[place + 1].called, called.start == frames[place].start, isCallerHere else {
        // A thunk of merged functions is also shared by several functions.
        if isCallerHere, frames[place + 1].kind == .thunk, frames[place + 1].location == nil {
          frames[place + 1].isMerged = true
        }
        continue
      }
      frames[place].function = called.function
      frames[place].fullName = called.fullName
      frames[place].rawName = called.rawName
      frames[place].swiftModule = called.swiftModule
      frames[place].sourceFunction = called.sourceFunction
      frames[place].isMerged = false
    }
    return frames
  }
}

package struct ResolvedFrame: Hashable, Sendable {
  package var function: String?
  package var fullName: String?
  package var rawName: String?
  /// The module of the function. Generic code is often compiled into another module's file.
  package var swiftModule: String?
  /// The full name of the source function, if this is a variant or part without a source name: a specialization, a part
  /// of an async function, an implicit closure.
  package var sourceFunction: String?
  package var kind: FunctionKind
  /// Whether the compiler merged several similar functions.
  package var isMerged: Bool
  /// The function called here, if several functions share its code; `nil` for other calls or an unknown function.
  package var called: CalledFunction?
  package var module: String
  /// The function's first address in the module's file; the frame's address if the function is unknown.
  package var start: FileAddress?
  /// The address, in the module's file or in the process.
  package var address: CodeAddress
  package var location: SourceLocation?
  /// The origin of the code. Generic and inlined code is compiled into another module's unit.
  package var origin: CodeOrigin
  package var isInlined: Bool
  package var missing: MissingNameReason?
  /// Whether the function is not on the thread's stack and resumes here after an `await`.
  package var isAwaiting = false

  package init(
    function: String?,
    fullName: String? = nil,
    rawName: String? = nil,
    swiftModule: String? = nil,
    sourceFunction: String? = nil,
    kind: FunctionKind = .function,
    isMerged: Bool = false,
    module: String,
    start: FileAddress? = nil,
    address: CodeAddress,
    location: SourceLocation? = nil,
    origin: CodeOrigin = .unknown,
    isInlined: Bool = false,
    missing: MissingNameReason? = nil
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.kind = kind
    self.isMerged = isMerged
    self.module = module
    self.start = start
    self.address = address
    self.location = location
    self.origin = origin
    self.isInlined = isInlined
    self.missing = missing
  }

  package var moduleName: String { module.lastComponent }

  /// The name to print, at most 100 characters: the function, the module with an offset or address, or the address.
  package var displayName: String {
    if let function {
      let suffix = isMerged ? FunctionName.mergedSuffix : ""
      return FunctionName.fitted(function, to: FunctionName.charactersMax - suffix.count) + suffix
    }
    let place = "0x" + String(start?.value ?? address.value, radix: 16)
    return module.isEmpty ? place : "\(moduleName)+\(place)"
  }
}
