package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class ErrorsTest {
  @Test
  void codesAreThoseOfTheErrorTable() throws IOException {
    String page = Files.readString(Path.of("../../docs/reference/errors.md"));
    Matcher row = Pattern.compile("(?m)^\\| (\\d+) \\| `(\\w+)` \\| (yes|no) \\|").matcher(page);
    Map<String, String> documented = new TreeMap<>();
    while (row.find()) {
      documented.put(row.group(2), row.group(1) + " " + row.group(3));
    }
    Map<String, String> here = new TreeMap<>();
    for (ErrorCode code : ErrorCode.values()) {
      here.put(code.name(), code.number() + " " + (code.isRetryable() ? "yes" : "no"));
    }
    assertEquals(documented, here);
  }
}
