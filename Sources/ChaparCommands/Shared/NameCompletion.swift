import ArgumentParser
import ChaparCore
import Foundation

/// Names that the running gateway knows, for the completion of the command line.
///
/// The gateway is the one of the flags on the line, or that of the environment. It gets a second to answer. Nothing is
/// written when it gives no answer, refuses the key, or no gateway is named.
enum NameCompletion: Sendable {
    case backends
    case segments
    case keys

    /// The longest time that a completion takes.
    private static let deadline = Duration.seconds(1)
    /// The most names that are offered.
    private static let mostNames = 500

    /// The completion of an argument that takes one of the names, or several that are divided by commas.
    var kind: CompletionKind {
        let complete: @Sendable ([String], Int, String) async -> [String] = { words, _, prefix in
            await candidates(words, prefix)
        }
        return .custom(complete)
    }

    private var path: String {
        switch self {
        case .backends: "/v1/backends"
        case .segments: "/v1/segments?limit=\(Self.mostNames)"
        case .keys: "/v1/keys"
        }
    }

    /// Returns the candidates for the last of the names before the cursor.
    private func candidates(_ words: [String], _ prefix: String) async -> [String] {
        let names = await withTaskGroup(of: [String].self) { group in
            group.addTask { await ask(Self.gateway(words)) }
            group.addTask {
                try? await Task.sleep(for: Self.deadline)
                return []
            }
            let names = await group.next() ?? []
            group.cancelAll()
            return names
        }
        return Self.candidates(names, prefix)
    }

    /// Returns names with what stands before them on the line.
    static func candidates(_ names: [String], _ prefix: String) -> [String] {
        let before = prefix.lastIndex(of: ",").map { String(prefix[...$0]) } ?? ""
        // A shell divides candidates by lines, and the names come from outside.
        return names.filter { !$0.isEmpty && $0 == $0.onOneLine && !$0.contains(where: \.isWhitespace) }
            .prefix(mostNames).map { before + $0 }
    }

    /// Returns the flags about the gateway that stand on a line; nil when they are wrong.
    static func gateway(_ words: [String]) -> GatewayAddress? {
        let flags = ["--url", "--key-file", "--app", "--ca-file"]
        var arguments: [String] = []
        var rest = words.dropFirst()
        while let word = rest.popFirst() {
            if word == "--allow-plain-http" {
                arguments.append(word)
            } else if flags.contains(word), let value = rest.popFirst() {
                arguments += [word, unquoted(value)]
            } else if let flag = flags.first(where: { word.hasPrefix($0 + "=") }) {
                arguments += [flag, unquoted(String(word.dropFirst(flag.count + 1)))]
            }
        }
        return try? GatewayAddress.parse(arguments)
    }

    /// Returns a word of a shell without the quotation marks around it.
    private static func unquoted(_ word: String) -> String {
        for mark in ["\"", "'"] where word.count > 1 && word.hasPrefix(mark) && word.hasSuffix(mark) {
            return String(word.dropFirst().dropLast())
        }
        return word
    }

    /// Asks the gateway for the names; returns none when it does not give them.
    private func ask(_ gateway: GatewayAddress?) async -> [String] {
        guard let client = try? gateway?.client() else { return [] }
        let answer: GatewayClient.Answer?
        do throws(HTTPFailure) {
            answer = try await client.get(path + appQuery(gateway))
        } catch {
            answer = nil
        }
        await client.close()
        guard let answer, answer.status == 200 else { return [] }
        let list =
            switch self {
            case .backends: answer.json["backends"]
            case .segments: answer.json["items"]
            case .keys: answer.json["keys"]
            }
        return (list?.arrayValue ?? []).compactMap { $0["name"]?.stringValue }
    }

    private func appQuery(_ gateway: GatewayAddress?) -> String {
        guard case .segments = self, let app = gateway?.app else { return "" }
        return "&app=" + FormEncoding.encode(app)
    }
}
