package io.github.rousehq.rouse.model;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.jspecify.annotations.Nullable;

/** Copies of what records are made of, which no other code changes. */
final class Values {
    private Values() {}

    static <T> List<T> copy(@Nullable List<T> list) {
        return list == null ? List.of() : List.copyOf(list);
    }

    /** Keeps the order, unlike Map.copyOf. */
    static <T> Map<String, T> copy(@Nullable Map<String, T> map) {
        return map == null || map.isEmpty() ? Map.of() : Collections.unmodifiableMap(new LinkedHashMap<>(map));
    }
}
