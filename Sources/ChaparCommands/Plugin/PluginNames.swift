import ArgumentParser
import ChaparCore

/// The names in a plugin's files.
///
/// `chapar plugin new` makes them of the platform's name, and the templates take all names from them. A name that
/// Chapar or Swift uses itself is refused before a file is written.
struct PluginNames {
    /// The prefix of its types, such as `MyChat`.
    let type: String
    /// The name of its factory and token service, such as `myChat`.
    let member: String
    /// Its kind in configurations, such as `my-chat`.
    let kind: String
    /// The program with its gateway.
    let program: String

    /// Makes the names from the name of a platform; throws when that is not a valid name.
    init(_ name: String, program: String? = nil) throws {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        let isWord = !name.isEmpty && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy(Self.isLetterOrDigit) }
        guard isWord, let first = name.utf8.first, !(48...57).contains(first), name.utf8.count <= 28 else {
            throw ValidationError("\"\(name)\" is no name: 1 to 28 letters, digits and single -, a letter first.")
        }
        // `MyChat` becomes `my-chat`; `SMS` stays one word.
        var kind = ""
        var wasLower = false
        for letter in name {
            if letter.isUppercase, wasLower { kind += "-" }
            wasLower = letter.isLowercase
            kind += letter.lowercased()
        }
        let words = kind.split(separator: "-")
        let isCapital = name == name.uppercased() && !name.contains("-")
        self.kind = kind
        type = isCapital ? name : words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        member =
            words.prefix(1).joined() + words.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        self.program = program ?? "\(kind)-gateway"
        guard !TakenNames.words.contains(kind), !targets.contains(where: TakenNames.isTarget) else {
            throw ValidationError("\"\(name)\" is a name of Chapar's: take another.")
        }
        guard !TakenNames.keywords.contains(member) else {
            throw ValidationError("\"\(name)\" is a reserved word of Swift: take another.")
        }
        try checkProgram()
    }

    /// The targets of the plugin, besides its program.
    var targets: [String] { ["Chapar\(type)", "Chapar\(type)Simulator", "Chapar\(type)Tests"] }

    /// Throws when the program's name is not valid, or that of another target.
    private func checkProgram() throws {
        guard BackendRegistry.isName(program), program.first?.isLetter == true else {
            throw ValidationError("\"\(program)\" is no name of a program: letters, digits, - and _, a letter first.")
        }
        guard !TakenNames.isTarget(program) else {
            throw ValidationError("\"\(program)\" is a module of Chapar's or Swift's: take another --program.")
        }
        guard !targets.contains(where: { $0.lowercased() == program.lowercased() }) else {
            throw ValidationError("\"\(program)\" is a target of the plugin: take another --program.")
        }
    }

    /// The values of the templates' placeholders.
    var words: [String: String] {
        [
            "Name": type, "name": member, "kind": kind, "program": program, "package": "push-\(kind)",
            "ENV": kind.uppercased().replacing("-", with: "_"),
        ]
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
