package io.flotilla.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.DocumentationTool;
import javax.tools.JavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The program of the README, and those of examples/, compiled as they are and run against a node. */
class ProgramsTest {
  @TempDir private Path folder;

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "Produce | stored 1000, the last one at offset 999",
    "Work | dead: broken, no such address",
    "Stream | read again: event 0",
    "Transfer | invoice at offset 0",
    "Redrive | again: file 1",
  })
  void examplesRun(String name, String line) throws Exception {
    String source = Files.readString(Path.of("examples", name + ".java"));
    List<String> lines = run(name, source, Node.shared().address());
    assertTrue(lines.contains(line), lines.toString());
  }

  /** A part of tests/integration/spark/test_languages.py, at the brokers of that test. */
  @Test
  @EnabledIfEnvironmentVariable(named = "LANGUAGES", matches = ".+", disabledReason = "run by pytest")
  void severalLanguages() throws Exception {
    String source = Files.readString(Path.of("../../examples/languages/Deliver.java"));
    List<String> lines = run("Deliver", source, System.getenv("LANGUAGES").split(" "));
    assertEquals(List.of("sent to ann", "sent to bob"), lines.stream().sorted().toList());
  }

  @Test
  void everyExampleIsRun() throws Exception {
    try (var files = Files.list(Path.of("examples"))) {
      assertEquals(List.of("Produce.java", "Redrive.java", "Stream.java", "Transfer.java", "Work.java"),
          files.map(each -> each.getFileName().toString()).sorted().toList());
    }
  }

  @Test
  void theReadmeWorksWhenPasted() throws Exception {
    Matcher blocks = Pattern.compile("```java\n(import .*?)```", Pattern.DOTALL)
        .matcher(Files.readString(Path.of("README.md")));
    assertTrue(blocks.find());
    List<String> lines = run("Main", blocks.group(1), Node.shared().address());
    assertEquals("order 1, attempt 1", lines.get(1));
  }

  @Test
  void thePiecesOfTheDocumentationCompile() throws Exception {
    String imports = "import io.flotilla.client.*;\nimport java.nio.file.Path;\nimport java.util.Map;\n";
    for (Path page : List.of(Path.of("README.md"), Path.of("../../docs/clients.md"))) {
      StringBuilder pieces = new StringBuilder();
      Matcher blocks = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(page));
      while (blocks.find()) {
        if (!blocks.group(1).contains("class Main")) {
          pieces.append(blocks.group(1).replaceAll("(?m)^import .*$", ""));
        }
      }
      assertTrue(pieces.length() > 0);
      compile("Pieces", imports + "class Pieces { void run() throws Exception {\n" + pieces + "} }\n");
    }
  }

  @Test
  void theReadmeHasTheVersionOfTheArtifact() throws Exception {
    Pattern version = Pattern.compile("<artifactId>flotilla-client</artifactId>\\s*(<version>[^<]+</version>)");
    Matcher pom = version.matcher(Files.readString(Path.of("pom.xml")));
    Matcher readme = version.matcher(Files.readString(Path.of("README.md")));
    assertTrue(pom.find() && readme.find());
    assertEquals(pom.group(1), readme.group(1));
  }

  @Test
  void everythingPublicHasJavadocWithoutWarnings() throws Exception {
    DocumentationTool tool = ToolProvider.getSystemDocumentationTool();
    var said = new DiagnosticCollector<JavaFileObject>();
    List<String> options = List.of("-quiet", "-Xmaxwarns", "10000", "-Xdoclint:all", "-d", folder.toString(),
        "-classpath", System.getProperty("java.class.path"));
    try (var files = tool.getStandardFileManager(null, null, null);
        var sources = Files.list(Path.of("src/main/java/io/flotilla/client"))) {
      var units = files.getJavaFileObjectsFromPaths(sources.toList());
      assertTrue(tool.getTask(null, files, said, null, options, units).call(), said.getDiagnostics().toString());
    }
    // The sentence of a method names its parameters and its result.
    assertEquals(List.of(), said.getDiagnostics().stream()
        .filter(each -> each.getKind() != Diagnostic.Kind.NOTE).map(Object::toString)
        .filter(each -> !each.contains("no @param") && !each.contains("no @return")).toList());
  }

  /** The lines that a program prints. */
  private List<String> run(String name, String source, String... arguments) throws Exception {
    compile(name, source);
    PrintStream before = System.out;
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, getClass().getClassLoader())) {
      System.setOut(new PrintStream(printed, true));
      loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
    } finally {
      System.setOut(before);
    }
    return printed.toString().lines().toList();
  }

  private void compile(String name, String source) throws Exception {
    Path file = Files.writeString(folder.resolve(name + ".java"), source);
    int code = ToolProvider.getSystemJavaCompiler().run(null, null, null,
        "-classpath", System.getProperty("java.class.path"), "-d", folder.toString(), file.toString());
    assertEquals(0, code, name + " does not compile");
  }
}
