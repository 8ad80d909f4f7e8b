/// A map of a configuration file that is being read: it returns typed values and collects every mistake.
///
/// A reader reads each of its keys, then calls ``finish()``, which reports the keys that were not read and suggests the
/// nearest valid one. Reading never stops at a mistake: for an unusable value nil or the default is returned, and the
/// report has the issue. It is used on one thread, while a file is loaded.
public final class ConfigSection {
    /// The path of the section, such as `backends.ios`; empty for the whole file.
    public let path: String
    /// The place where the section begins.
    public let origin: ConfigOrigin
    /// The report of all sections of the file.
    public let report: ConfigReport
    private let files: any ConfigFileReader
    private var entries: [ConfigNode.Entry]
    private let isMap: Bool
    private var known: Set<String> = []
    /// The former names under which the file has keys, by the present names.
    private var formerNames: [String: String] = [:]

    /// Makes a section from a map; any other value is an issue, and reads as an empty map.
    public init(_ node: ConfigNode, path: String = "", report: ConfigReport, files: any ConfigFileReader) {
        self.path = path
        self.origin = node.origin
        self.report = report
        self.files = files
        switch node.value {
        case .map(let entries): (self.entries, isMap) = (entries, true)
        case .null: (entries, isMap) = ([], true)
        default:
            (entries, isMap) = ([], false)
            report.add(ConfigIssue(path: path, origin: node.origin, problem: "must be a map of keys and values"))
        }
    }

    /// The keys in the file, in order.
    public var keys: [String] { entries.map(\.key) }

    /// Adds an issue about a key of this section, under the name that the file has.
    public func reject(_ key: String, _ problem: String, fix: String? = nil) {
        let entry = entries.first { $0.key == key }
        report.add(
            ConfigIssue(
                path: join(formerNames[key] ?? key),
                origin: entry?.node.origin ?? origin,
                problem: problem,
                fix: fix
            )
        )
    }

    /// Accepts a key under its former name as well; call this before the key is read.
    ///
    /// The former name causes a warning. A map with both names is a mistake, since it is not clear which of the two
    /// values is meant. A name from a merged map (`<<`) is overridden by the other one, as a key of the same name is.
    /// Documents, suggestions and the list of values in force have only the current name.
    package func accept(_ name: FormerName) {
        let (key, old) = (name.present.description, name.former.description)
        guard let former = entries.first(where: { $0.key == old }) else { return }
        if let present = entries.first(where: { $0.key == key }) {
            guard former.mergeRank != present.mergeRank else {
                known.insert(old)
                reject(old, "is the old name of \(key), which is there as well", fix: "Leave \(old) out.")
                return
            }
            let overridden = former.mergeRank < present.mergeRank ? key : old
            entries.removeAll { $0.key == overridden }
        }
        guard let index = entries.firstIndex(where: { $0.key == old }) else { return }
        entries[index].key = key
        formerNames[key] = old
        report.warn(
            ConfigIssue(
                path: join(old),
                origin: former.keyOrigin,
                problem: "is the old name of \(key) and ends with the next minor version",
                fix: "Write \(key)."
            )
        )
    }

    /// Whether the key has a value in the file; asking counts the key as known.
    public func has(_ key: String) -> Bool { node(key) != nil }

    /// Returns a path as the file has it, for messages; nil when the key is absent or has no text of one line.
    package func pathAsWritten(_ key: String) -> String? {
        guard case .scalar(let text) = node(key)?.value, !text.contains(where: \.isNewline) else { return nil }
        return text
    }

    /// Whether the key has a map in the file, for keys that take a text or a map.
    public func holdsMap(_ key: String) -> Bool {
        if case .map = entries.first(where: { $0.key == key })?.node.value { true } else { false }
    }

    /// Reads a text; nil when the key is absent.
    public func string(_ key: String) -> String? {
        record(key, "text")
        guard let (text, origin) = scalar(key) else { return nil }
        report.note(join(key), text, origin)
        return text
    }

    /// Reads a text; the default when the key is absent.
    public func string(_ key: String, default fallback: String) -> String {
        record(key, "text", standard: fallback)
        if let text = string(key) { return text }
        noteDefault(key, fallback)
        return fallback
    }

    /// Reads a text that must be there and must not be blank.
    public func requiredString(_ key: String, _ meaning: String) -> String? {
        record(key, "text", isRequired: true)
        guard let text = string(key) else {
            if !has(key) { missing(key, meaning) }
            return nil
        }
        guard !text.allSatisfy(\.isWhitespace) else {
            reject(key, "is empty", fix: "Write \(meaning).")
            return nil
        }
        return text
    }

    /// Reads a secret; nil when the key is absent or blank.
    ///
    /// The report never has its value.
    public func secret(_ key: String) -> Secret? {
        record(key, "secret")
        guard let (text, origin) = scalar(key) else { return nil }
        report.note(join(key), nil, origin)
        guard !text.allSatisfy(\.isWhitespace) else {
            reject(key, "is empty", fix: "Check the variable or file it comes from.")
            return nil
        }
        return Secret(text)
    }

    /// Reads a whole number within a range; the default when the key is absent.
    public func integer(_ key: String, in range: ClosedRange<Int>, default fallback: Int) -> Int {
        record(key, Self.form("whole number", range), standard: String(fallback))
        return wholeNumber(key, range, fallback)
    }

    private func wholeNumber(_ key: String, _ range: ClosedRange<Int>, _ fallback: Int) -> Int {
        guard let (text, origin) = scalar(key) else {
            noteDefault(key, String(fallback))
            return fallback
        }
        guard let number = ScalarForms.wholeNumber(text), range.contains(number) else {
            reject(
                key,
                "\"\(text)\" is not a whole number from \(range.lowerBound) to \(range.upperBound)",
                fix: key.hasSuffix("seconds")
                    ? Self.spanFix(text)
                    : key.contains("bytes") ? ScalarForms.bytes(text).map { "Write \($0), the number of bytes." } : nil
            )
            return fallback
        }
        report.note(join(key), String(number), origin)
        return number
    }

    /// Reads a whole number within a range; nil when the key is absent.
    public func integer(_ key: String, in range: ClosedRange<Int>) -> Int? {
        record(key, Self.form("whole number", range))
        return has(key) ? wholeNumber(key, range, range.lowerBound) : nil
    }

    /// Reads a span in seconds, fractions allowed, within a range of seconds.
    public func seconds(_ key: String, in range: ClosedRange<Double>, default fallback: Duration) -> Duration {
        record(key, Self.form("seconds", range), standard: Self.text(fallback.inSeconds))
        return span(key, range, fallback)
    }

    private func span(_ key: String, _ range: ClosedRange<Double>, _ fallback: Duration) -> Duration {
        guard let (text, origin) = scalar(key) else {
            noteDefault(key, Self.text(fallback.inSeconds))
            return fallback
        }
        guard let number = ScalarForms.decimal(text), range.contains(number) else {
            reject(
                key,
                "\"\(text)\" is not a number of seconds from \(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))",
                fix: Self.spanFix(text)
            )
            return fallback
        }
        report.note(join(key), text, origin)
        return .milliseconds(clamping: number * 1000)
    }

    /// Reads a span in seconds, fractions allowed; nil when the key is absent.
    public func optionalSeconds(_ key: String, in range: ClosedRange<Double>) -> Duration? {
        record(key, Self.form("seconds", range))
        return has(key) ? span(key, range, .seconds(clamping: range.lowerBound)) : nil
    }

    /// Reads a number within a range; the default when the key is absent.
    public func number(_ key: String, in range: ClosedRange<Double>, default fallback: Double) -> Double {
        record(key, Self.form("number", range), standard: Self.text(fallback))
        return fraction(key, range, fallback)
    }

    /// Reads a number within a range; nil when the key is absent.
    public func number(_ key: String, in range: ClosedRange<Double>) -> Double? {
        record(key, Self.form("number", range))
        return has(key) ? fraction(key, range, range.lowerBound) : nil
    }

    private func fraction(_ key: String, _ range: ClosedRange<Double>, _ fallback: Double) -> Double {
        guard let (text, origin) = scalar(key) else {
            noteDefault(key, Self.text(fallback))
            return fallback
        }
        guard let number = ScalarForms.decimal(text), range.contains(number) else {
            reject(
                key,
                "\"\(text)\" is not a number from \(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))"
            )
            return fallback
        }
        report.note(join(key), text, origin)
        return number
    }

    /// Reads `true` or `false`, in any letter case and also in quotes, as templates write them.
    ///
    /// `yes`, `no`, `on` and `off` in quotes are a mistake, unless they came from a variable or a file.
    public func bool(_ key: String, default fallback: Bool) -> Bool {
        record(key, "true or false", standard: String(fallback))
        guard let (text, origin) = scalar(key) else {
            noteDefault(key, String(fallback))
            return fallback
        }
        let isQuoted = node(key)?.isQuoted == true && origin.via == nil
        if let value = ScalarForms.truth(text, isQuoted: isQuoted) {
            report.note(join(key), String(value), origin)
            return value
        }
        if ScalarForms.truth(text, isQuoted: false) == nil {
            reject(key, "\"\(text)\" is neither true nor false")
        } else {
            reject(key, "\"\(text)\" is a text, not true or false", fix: "Write true or false, without quotes.")
        }
        return fallback
    }

    /// Reads one of a few words.
    public func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String,
        default fallback: Choice
    ) -> Choice {
        record(key, Choice.allCases.map(\.rawValue).joined(separator: ", "), standard: fallback.rawValue)
        if let choice: Choice = choice(key) { return choice }
        if !has(key) { noteDefault(key, fallback.rawValue) }
        return fallback
    }

    /// Reads one of a few words; nil when the key is absent or wrong.
    public func choice<Choice: RawRepresentable<String> & CaseIterable>(_ key: String) -> Choice? {
        let words = Choice.allCases.map(\.rawValue)
        record(key, words.joined(separator: ", "))
        guard let (text, origin) = scalar(key) else { return nil }
        guard let choice = Suggestion.same(as: text, among: words).flatMap(Choice.init) else {
            rejectWord(key, text, words)
            return nil
        }
        report.note(join(key), choice.rawValue, origin)
        return choice
    }

    /// Reads an `http` or `https` address without a path; nil when the key is absent or wrong.
    public func endpoint(_ key: String) -> HTTPEndpoint? {
        record(key, "address")
        guard let text = string(key) else { return nil }
        guard let endpoint = HTTPEndpoint(url: text) else {
            reject(
                key,
                "is not an address",
                fix: "Write https://host or https://host:port, without user, password and path."
            )
            return nil
        }
        return endpoint
    }

    /// Reads the file that the key names; a relative path starts at the configuration's folder.
    ///
    /// Nil when the key is absent or the file cannot be read.
    public func file(_ key: String) -> [UInt8]? {
        record(key, "file")
        guard let name = string(key) else { return nil }
        do {
            return try files.contents(of: name)
        } catch {
            reject(key, "\(error)")
            return nil
        }
    }

    /// Returns the credential that is written in the place of a file's name, for instance by an environment variable;
    /// nil when the value is a file's name.
    ///
    /// The report has the key without this value, and no error quotes the value as the name of a file that cannot be
    /// read.
    func credentialInPlaceOfFile(_ key: String) -> Secret? {
        guard let node = node(key), case .scalar(let text) = node.value else { return nil }
        guard CredentialText.isContent(text) || node.origin.via != nil && text.isEmpty else { return nil }
        record(key, "file")
        report.note(join(key), nil, node.origin)
        return Secret(text)
    }

    /// Returns the file that the key names, to be read again later; nil when the key is absent.
    ///
    /// A file that cannot be read is reported only when it is read.
    public func fileHandle(_ key: String) -> ConfigFile? {
        record(key, "file")
        return string(key).map { [files] name in ConfigFile(name: name) { try files.contents(of: name) } }
    }

    /// Returns a hash of the keys and values, and of the contents of files that are named by keys ending in `file`.
    ///
    /// It reveals only whether values are the same.
    func fingerprint(leavingOut keys: Set<String>) -> UInt64 {
        var hash = StableHash()
        func mix(_ bytes: some Sequence<UInt8>) {
            hash.add(bytes)
            hash.addEnd()
        }
        func mix(_ key: String, _ value: ConfigNode.Value) {
            mix(key.utf8)
            switch value {
            case .null: break
            case .scalar(let text):
                mix(text.utf8)
                if key.hasSuffix("file"), let contents = try? files.contents(of: text) { mix(contents) }
            case .list(let elements): for element in elements { mix(key, element.value) }
            case .map(let entries):
                for entry in entries.sorted(by: { $0.key < $1.key }) { mix(entry.key, entry.node.value) }
            }
        }
        for entry in entries.sorted(by: { $0.key < $1.key }) where !keys.contains(entry.key) {
            mix(entry.key, entry.node.value)
        }
        return hash.value
    }

    /// Reads a list of texts; a single text counts as a list of one.
    ///
    /// Nil when the key is absent.
    public func strings(_ key: String) -> [String]? {
        record(key, "list of texts")
        guard let node = node(key) else { return nil }
        let nodes: [ConfigNode]
        if case .list(let elements) = node.value { nodes = elements } else { nodes = [node] }
        var texts: [String] = []
        for node in nodes {
            guard case .scalar(let text) = node.value else {
                reject(key, "must be a list of texts")
                return nil
            }
            texts.append(text)
        }
        report.note(join(key), "[" + texts.joined(separator: ", ") + "]", node.origin)
        return texts
    }

    /// Reads the map under a key; nil when the key is absent.
    public func section(_ key: String) -> ConfigSection? {
        record(key, "map")
        return node(key).map { ConfigSection($0, path: join(key), report: report, files: files) }
    }

    /// Reads the maps of a list under a key; empty when the key is absent.
    public func sections(_ key: String) -> [ConfigSection] {
        record(key, "list of maps")
        guard let node = node(key) else { return [] }
        guard case .list(let elements) = node.value else {
            reject(key, "must be a list")
            return []
        }
        return elements.enumerated().map {
            ConfigSection($1, path: "\(join(key))[\($0)]", report: report, files: files)
        }
    }

    /// Counts a key as known without reading it.
    public func allow(_ key: String) { known.insert(key) }

    /// Reports the keys that were not read as mistakes.
    public func finish() {
        for entry in entries where !known.contains(entry.key) {
            let nearest = Suggestion.nearest(to: entry.key, among: known.sorted())
            // A web page or an office program puts them in the place of blanks; for YAML they are letters.
            let hasOtherBlank = entry.key.unicodeScalars.contains { !$0.isASCII && $0.properties.isWhitespace }
            let fix =
                hasOtherBlank
                ? "It holds a no-break space or another blank that YAML does not know: write plain spaces."
                : nearest.map { "Did you mean \"\($0)\"?" }
                    ?? "Known keys: \(known.sorted().joined(separator: ", "))."
            report.add(
                ConfigIssue(path: join(entry.key), origin: entry.keyOrigin, problem: "unknown key", fix: fix)
            )
        }
    }

    /// Reports that a required key is missing.
    ///
    /// It does nothing if the section is not a map, since that is reported already. Printed as "KEY: is missing. Write
    /// MEANING.", so the meaning begins in lower case and has no full stop. A meaning that shows a variable, such as
    /// `the account's key, as "${KEY}"`, marks a secret: `init` keeps it out of the configuration file.
    public func missing(_ key: String, _ meaning: String) {
        known.insert(key)
        guard isMap else { return }
        report.add(ConfigIssue(path: join(key), origin: origin, problem: "is missing", fix: "Write \(meaning)."))
    }

    /// Reports that a word is not among those allowed, and suggests the nearest.
    public func rejectWord(_ key: String, _ word: String, _ allowed: [String]) {
        let nearest = Suggestion.nearest(to: word, among: allowed).map { "Did you mean \"\($0)\"? " } ?? ""
        reject(key, "\"\(word)\" is not allowed", fix: "\(nearest)Allowed: \(allowed.joined(separator: ", ")).")
    }

    /// Returns the fix for a span with units where a number of seconds is meant; nil for any other text.
    private static func spanFix(_ text: String) -> String? {
        ScalarForms.seconds(text).map { "Write \(Self.text($0)), the number of seconds." }
    }

    private func node(_ key: String) -> ConfigNode? {
        known.insert(key)
        guard let entry = entries.first(where: { $0.key == key }), entry.node.value != .null else { return nil }
        return entry.node
    }

    private func scalar(_ key: String) -> (String, ConfigOrigin)? {
        guard let node = node(key) else { return nil }
        guard case .scalar(let text) = node.value else {
            reject(key, "must be a single value, not a list or a map")
            return nil
        }
        return (text, node.origin)
    }

    private func noteDefault(_ key: String, _ value: String) { report.note(join(key), value, .builtIn) }

    private func join(_ key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    private static func form(_ word: String, _ range: ClosedRange<Int>) -> String {
        range.upperBound == .max
            ? "\(word), \(range.lowerBound) or more" : "\(word), \(range.lowerBound) to \(range.upperBound)"
    }

    private static func form(_ word: String, _ range: ClosedRange<Double>) -> String {
        "\(word), \(text(range.lowerBound)) to \(text(range.upperBound))"
    }

    private static func text(_ seconds: Double) -> String {
        seconds == seconds.rounded() ? String(Int64(clamping: seconds)) : String(seconds)
    }
}

/// A file that a configuration names, read anew each time.
public struct ConfigFile: Sendable {
    /// The name in the configuration.
    public let name: String
    /// Reads the file; throws a sentence that says why it cannot be read.
    public let contents: @Sendable () throws -> [UInt8]

    /// Makes a file from a closure that returns its bytes.
    public init(name: String, contents: @escaping @Sendable () throws -> [UInt8]) {
        self.name = name
        self.contents = contents
    }
}
