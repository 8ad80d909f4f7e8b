internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import CYaml

/// The search for keys that are lists or maps, before a document is composed.
///
/// Yams compares the keys of a map by their contents and follows aliases, so a key that is an alias of nested aliases
/// takes time that doubles with each level. This pass reads only the events of libyaml, which follows no alias: its
/// time is linear.
enum YAMLKeys {
    /// The next expected node in an open list or map.
    private enum Place {
        case element
        case key
        case value
    }

    /// Returns the line and column, from 1, of the first key that is a list, a map or an alias of one; nil when there
    /// is none.
    ///
    /// Returns nil for a document that libyaml cannot read: composing it reports the mistake.
    static func firstStructure(in text: String) -> (line: Int, column: Int)? {
        var parser = yaml_parser_t()
        guard yaml_parser_initialize(&parser) == 1 else { return nil }
        defer { yaml_parser_delete(&parser) }
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING)
        var text = text
        return text.withUTF8 { bytes in
            yaml_parser_set_input_string(&parser, bytes.baseAddress, bytes.count)
            return firstStructure(&parser)
        }
    }

    private static func firstStructure(_ parser: inout yaml_parser_t) -> (line: Int, column: Int)? {
        var places: [Place] = []
        var structures: Set<String> = []
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(&parser, &event) == 1 else { return nil }
            defer { yaml_event_delete(&event) }
            let isKey = places.last == .key
            switch event.type {
            case YAML_SCALAR_EVENT: pass(&places)
            case YAML_ALIAS_EVENT:
                let anchor = event.data.alias.anchor.map { String(cString: $0) }
                if isKey, anchor.map(structures.contains) ?? false { return position(event) }
                pass(&places)
            case YAML_SEQUENCE_START_EVENT, YAML_MAPPING_START_EVENT:
                if isKey { return position(event) }
                let isMap = event.type == YAML_MAPPING_START_EVENT
                let anchor = isMap ? event.data.mapping_start.anchor : event.data.sequence_start.anchor
                if let anchor { structures.insert(String(cString: anchor)) }
                places.append(isMap ? .key : .element)
            case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
                _ = places.popLast()
                pass(&places)
            case YAML_STREAM_END_EVENT: return nil
            default: break
            }
        }
    }

    /// Moves on after a node: a value follows a key, a key follows a value.
    private static func pass(_ places: inout [Place]) {
        guard let place = places.popLast() else { return }
        switch place {
        case .element: places.append(.element)
        case .key: places.append(.value)
        case .value: places.append(.key)
        }
    }

    private static func position(_ event: yaml_event_t) -> (line: Int, column: Int) {
        (line: Int(clamping: event.start_mark.line) + 1, column: Int(clamping: event.start_mark.column) + 1)
    }
}
