package import ChaparCore

/// A simulated platform, as the sandbox starts it, controls it and writes its part of a configuration.
///
/// A new platform is one conforming type, in `Plugins/X/Simulator`, and a line in `Sandbox`.
package protocol SimulatedPlatform: Running {
    /// The platform's name: the kind of its backend and the first step of its control paths, such as `apns`.
    var name: String { get }
    /// The listeners with their URLs, each name with the platform's in front.
    var listeners: [(name: String, url: String)] { get }
    /// The files that a gateway needs to send here, beside the authority's certificate.
    var files: [SandboxFile] { get }

    /// Returns the platform's entries in the configuration file's `backends`, with the files in `folder`.
    func backends(in folder: SandboxFolder) -> [SandboxBackend]
    /// Answers a control call, whose path has no platform name any more.
    func control(_ request: ControlRequest) throws(ControlError) -> JSONValue
}

/// A file that the sandbox writes.
package struct SandboxFile: Sendable {
    /// Its name in the sandbox's directory.
    package var name: String
    /// Its text.
    package var text: String
    /// Whether only its owner may read it.
    package var isSecret: Bool

    package init(name: String, text: String, isSecret: Bool = false) {
        self.name = name
        self.text = text
        self.isSecret = isSecret
    }

    /// The written text: a PEM document ends with a line break, so that files put together can be read.
    package var contents: String { text.hasPrefix("-----BEGIN ") && !text.hasSuffix("\n") ? text + "\n" : text }
}

/// The folder of the sandbox's files.
package struct SandboxFolder: Sendable {
    /// The directory's absolute path.
    package let path: String

    package init(path: String) { self.path = path }

    /// The authority's certificate.
    package var ca: String { file("ca.pem") }

    /// Returns the absolute path of a file.
    package func file(_ name: String) -> String { path + "/" + name }
}

/// A backend in the configuration file that the sandbox writes.
package struct SandboxBackend: Sendable {
    /// Its name.
    package var name: String
    /// Its keys with their values, in order; values are written as JSON, which YAML reads.
    package var keys: [(key: String, value: JSONValue)]

    package init(name: String, keys: [(key: String, value: JSONValue)]) {
        self.name = name
        self.keys = keys
    }

    /// The kind that its keys name.
    package var kind: BackendKind { BackendKind(rawValue: keys.first { $0.key == "kind" }?.value.stringValue ?? "") }

    /// The kinds that a gateway must have to read it: its own, and those whose name is the key of a section in it, as
    /// `onesignal` of IDPush.
    package var neededKinds: Set<BackendKind> { Set(keys.map { BackendKind(rawValue: $0.key) } + [kind]) }

    /// The lines of its entry in the file.
    package var lines: [String] { ["  \(name):"] + keys.map { "    \($0.key): \(Self.text($0.value))" } }

    /// Returns a value as YAML: plain words need no quotes, and any other JSON string is a YAML string too.
    private static func text(_ value: JSONValue) -> String {
        guard let word = value.stringValue, !word.isEmpty, word.utf8.allSatisfy({ (97...122).contains($0) })
        else { return value.text }
        return word
    }
}
